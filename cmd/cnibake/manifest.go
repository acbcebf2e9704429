package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cnibake/cnibake/builder/kubernetes"
	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/profiles/distro"
)

func (a *app) manifestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifest",
		Short: "Write Kubernetes manifests that bring the plugins to a cluster's nodes",
		Long: `Manifest writes Kubernetes manifests for nodes whose image cannot be rebuilt: a DaemonSet of its own,
or a patch for the DaemonSet of Multus. The same flags give the same bytes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.manifestDaemonSetCommand(), a.manifestMultusCommand())

	return cmd
}

// stagingOptions are the flags that both manifests have.
type stagingOptions struct {
	distro, image string
	preloaded     bool
	skip          []string
	update        string
	takeOver      bool
	kustomize     string
}

func (o *stagingOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&o.distro, "distro", "generic", "distribution of the nodes: "+strings.Join(distro.Names(), ", "))
	flags.StringVar(&o.image, "image", "", "image with installer and plugins, as REF@DIGEST")
	flags.BoolVar(&o.preloaded, "preloaded", false, "the image is on every node already: do not pull it")
	flags.StringSliceVar(&o.skip, "skip", nil, "plugins that are not staged")
	flags.StringVar(&o.update, "update", "", "what may be replaced: "+strings.Join(kubernetes.Updates(), ", ")+" (default always)")
	flags.BoolVar(&o.takeOver, "take-over", false, "replace the names that the distribution ships itself too")
	flags.StringVar(&o.kustomize, "kustomize", "", "write a kustomization into this directory instead of a manifest to standard output")

	_ = cmd.RegisterFlagCompletionFunc("distro", cobra.FixedCompletions(distro.Names(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("update", cobra.FixedCompletions(kubernetes.Updates(), cobra.ShellCompDirectiveNoFileComp))
}

// staging turns the flags into what the manifests take.
func (o *stagingOptions) staging(a *app) (kubernetes.Staging, error) {
	d, err := distro.Lookup(o.distro)
	if err != nil {
		return kubernetes.Staging{}, err
	}

	for _, name := range o.skip {
		if !payload.ValidName(name) {
			return kubernetes.Staging{}, fmt.Errorf("--skip: %q is not a plugin name", name)
		}
	}

	if o.image != "" {
		if _, err := os.Lstat(o.image); err == nil {
			return kubernetes.Staging{}, fmt.Errorf("--image: %s lies here, and nodes pull from a registry: push it first, or load it on every node and give its name with --preloaded", o.image)
		}

		warning, err := kubernetes.CheckImage(o.image, o.preloaded)
		if err != nil {
			return kubernetes.Staging{}, fmt.Errorf("--image: %w", err)
		}

		if warning != "" {
			a.log().Warn(warning)
		}
	}

	return kubernetes.Staging{
		Distro: d, Image: o.image, Preloaded: o.preloaded,
		Skip: o.skip, Update: o.update, TakeOver: o.takeOver,
	}, nil
}

// onOff is a flag that takes words for yes and no strictly, as the installer does: whatever is neither
// is an error, never a no.
type onOff bool

var _ pflag.Value = (*onOff)(nil)

func (v *onOff) Set(s string) error {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		*v = true
	case "false", "no", "off", "0":
		*v = false
	default:
		return errors.New("it is neither true, yes, on, 1 nor false, no, off, 0")
	}

	return nil
}

func (v *onOff) String() string {
	if *v {
		return "on"
	}

	return "off"
}

func (v *onOff) Type() string { return "on|off" }

// writeManifest puts a manifest where the flags say.
func (a *app) writeManifest(m *kubernetes.Manifest, dir string) error {
	if dir == "" {
		data, err := m.YAML()
		if err != nil {
			return err
		}

		_, err = a.stdout.Write(data)

		return err
	}

	files, err := m.Kustomization()
	if err != nil {
		return err
	}

	if err := writeKustomization(dir, files); err != nil {
		return fmt.Errorf("writing kustomization: %w", err)
	}

	for _, f := range files {
		fmt.Fprintln(a.stdout, filepath.Join(dir, f.Name))
	}

	return nil
}

// writeKustomization writes files into a directory that has no kustomization of somebody else's.
func writeKustomization(dir string, files []kubernetes.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	for _, other := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		name := filepath.Join(dir, other)

		data, err := os.ReadFile(name)
		if err == nil && !bytes.HasPrefix(data, []byte(kubernetes.KustomizationMark)) {
			return fmt.Errorf("%s is not ours: give a directory of its own and name that under resources or components there", name)
		}

		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}

	for _, f := range files {
		if err := writeWhole(filepath.Join(dir, f.Name), f.Data); err != nil {
			return err
		}
	}

	return nil
}

// manifestError tells a distribution for which there is no manifest from a wrong flag.
func manifestError(err error, command string) error {
	if errors.Is(err, kubernetes.ErrNoManifest) {
		return answerNo{err}
	}

	return usageError{err, command}
}
