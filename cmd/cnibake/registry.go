package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder/oci"
)

// registryFlags are those of every command that talks to registries.
type registryFlags struct {
	insecure bool
	caFile   string
	jobs     int
	// hasJobs is set where there is a flag for jobs.
	hasJobs bool
}

func (f *registryFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.insecure, "insecure", false, "take any certificate from the registry, and plain HTTP")
	flags.StringVar(&f.caFile, "ca-file", "", "also trust the certificate authorities in this PEM `FILE`")
}

// addJobsFlag is for commands that transfer much.
func (f *registryFlags) addJobsFlag(cmd *cobra.Command) {
	f.hasJobs = true

	cmd.Flags().IntVar(&f.jobs, "jobs", 4, "blobs to transfer at once")
}

// registryClient returns a client with the user's credentials, proxies and certificate authorities.
func (a *app) registryClient(f registryFlags) (*oci.Client, error) {
	options := []oci.ClientOption{
		oci.WithKeychain(credentialFiles{a.env}),
		oci.WithProxy(http.ProxyFromEnvironment),
		oci.WithUserAgent("cnibake/" + ownVersion()),
	}

	if f.hasJobs {
		if f.jobs < 1 {
			return nil, fmt.Errorf("jobs %d: at least one blob has to be transferred at a time", f.jobs)
		}

		options = append(options, oci.WithJobs(f.jobs))
	}

	if f.insecure {
		options = append(options, oci.WithInsecure())
	}

	if f.caFile != "" {
		roots, err := trusted(f.caFile)
		if err != nil {
			return nil, fmt.Errorf("reading certificate authorities: %w", err)
		}

		options = append(options, oci.WithRootCAs(roots))
	}

	return oci.NewClient(options...)
}

// copyOptions show how far a push has come: by a bar on a terminal, by lines elsewhere.
func (a *app) copyOptions() []oci.CopyOption {
	if _, ok := a.terminal(); ok {
		return []oci.CopyOption{oci.WithProgress(oci.Progress(a.progress()))}
	}

	return []oci.CopyOption{oci.WithLog(a.log())}
}

// trusted returns the system's certificate authorities and those of a file.
func trusted(file string) (*x509.CertPool, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}

	data, err := readSmall(file, maxKey)
	if err != nil {
		return nil, err
	}

	if !roots.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s has no certificate in PEM form", file)
	}

	return roots, nil
}

// registryRemedy says what to do about what registries refuse.
func registryRemedy(err error) string {
	switch {
	case errors.Is(err, oci.ErrUnauthorized):
		return ": log in with docker, podman, skopeo or crane; credentials are looked for in " + credentialPlaces
	case errors.Is(err, oci.ErrCertificate):
		return ": give --ca-file, or --insecure to take any certificate"
	case errors.Is(err, oci.ErrPlainHTTP):
		return ": give --insecure if that is meant"
	default:
		return ""
	}
}
