package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/sigstore/cosign/v2/pkg/providers"
	"github.com/sigstore/sigstore/pkg/oauthflow"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	// Where identity tokens come from by themselves: the environment, a mounted file, GitHub's CI.
	_ "github.com/sigstore/cosign/v2/pkg/providers/envvar"
	_ "github.com/sigstore/cosign/v2/pkg/providers/filesystem"
	_ "github.com/sigstore/cosign/v2/pkg/providers/github"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/attest"
)

// signerFlags say who signs.
type signerFlags struct {
	key                             string
	fulcio, rekor, issuer, clientID string
	token                           string
	upload                          bool
	uploadIsSet                     func() bool
}

func (f *signerFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.key, "key", "", "sign with the private key in this PEM `FILE`: one of cosign's, whose password is $COSIGN_PASSWORD, or PKCS#8; without it a certificate for your identity is asked for")
	flags.StringVar(&f.fulcio, "fulcio-url", "https://fulcio.sigstore.dev", "without --key: the certificate authority")
	flags.StringVar(&f.rekor, "rekor-url", "https://rekor.sigstore.dev", "the transparency log for --tlog-upload")
	flags.StringVar(&f.issuer, "oidc-issuer", "https://oauth2.sigstore.dev/auth", "without --key: who says who you are")
	flags.StringVar(&f.clientID, "oidc-client-id", "sigstore", "without --key: how that issuer knows this program")
	flags.StringVar(&f.token, "identity-token", "", "without --key: an identity `TOKEN`, or a file with one; by default the CI system is asked, and on a terminal a browser opened")
	flags.BoolVar(&f.upload, "tlog-upload", false, "record signatures in the transparency log, for everybody to see for ever (default: with --key no, otherwise yes)")
	f.uploadIsSet = func() bool { return flags.Changed("tlog-upload") }
}

// signer loads the key, or asks for a certificate.
func (a *app) signer(ctx context.Context, f signerFlags) (*attest.Signer, error) {
	signer, err := a.keyOrIdentity(ctx, f)
	if err != nil {
		return nil, err
	}

	if f.upload || f.key == "" && !f.uploadIsSet() {
		err = signer.SetLog(f.rekor)
	}

	return signer, err
}

func (a *app) keyOrIdentity(ctx context.Context, f signerFlags) (*attest.Signer, error) {
	if f.key == "" {
		token, err := a.identityToken(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("%w; or sign with --key", err)
		}

		return attest.Keyless(ctx, f.fulcio, token)
	}

	text, err := readSmall(f.key, maxKey)
	if err != nil {
		return nil, fmt.Errorf("reading the key: %w", err)
	}

	signer, err := attest.LoadKey(text, func() ([]byte, error) { return a.keyPassword(ctx) })
	if err != nil {
		return nil, fmt.Errorf("reading the key %s: %w", f.key, err)
	}

	return signer, nil
}

// keyPassword is COSIGN_PASSWORD, also when it is empty, or else what is typed on the terminal.
func (a *app) keyPassword(ctx context.Context) ([]byte, error) {
	if password, ok := a.lookupEnv("COSIGN_PASSWORD"); ok {
		return []byte(password), nil
	}

	terminal := int(os.Stdin.Fd())

	before, err := term.GetState(terminal)
	if err != nil {
		return nil, errors.New("the key is encrypted: set COSIGN_PASSWORD")
	}

	fmt.Fprint(a.stderr, "Password of the key: ")
	defer fmt.Fprintln(a.stderr)

	var password []byte

	typed := make(chan error, 1)

	go func() {
		var err error
		password, err = term.ReadPassword(terminal)
		typed <- err
	}()

	select {
	case err := <-typed:
		return password, err
	case <-ctx.Done():
		// Otherwise the terminal would not show any more what is typed.
		return nil, errors.Join(ctx.Err(), term.Restore(terminal, before))
	}
}

// identityToken finds a token for the certificate authority.
func (a *app) identityToken(ctx context.Context, f signerFlags) (string, error) {
	if f.token != "" {
		data, err := os.ReadFile(f.token)
		if err != nil {
			return f.token, nil // then it is the token itself
		}

		return strings.TrimSpace(string(data)), nil
	}

	if providers.Enabled(ctx) {
		token, err := providers.Provide(ctx, f.clientID)
		if err != nil {
			return "", fmt.Errorf("asking for an identity token: %w", err)
		}

		return token, nil
	}

	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return "", errors.New("asking for an identity token: there is no terminal and no CI system that has one: give --identity-token")
	}

	browser := *oauthflow.DefaultIDTokenGetter
	browser.Output = a.stderr

	token, err := oauthflow.OIDConnect(f.issuer, f.clientID, "", "", &browser)
	if err != nil {
		return "", fmt.Errorf("asking %s for an identity token: %w", f.issuer, err)
	}

	return token.RawString, nil
}

// printSigned prints what signing or attesting did.
func (a *app) printSigned(signed []builder.Signed) error {
	if a.output == "json" {
		return writeJSON(a.stdout, signed)
	}

	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tPLATFORM\tDIGEST\tADDED")

	for _, one := range signed {
		for _, subject := range one.Subjects {
			added := "nothing: it was there"
			if len(subject.Added) > 0 {
				added = fmt.Sprint(subject.Added)
			}

			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", one.Name, subject.Platform, subject.Digest, added)
		}
	}

	return table.Flush()
}
