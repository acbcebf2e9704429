package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder"
	"github.com/cnibake/cnibake/builder/installer"
	"github.com/cnibake/cnibake/builder/oci"
	"github.com/cnibake/cnibake/builder/plugins"
	"github.com/cnibake/cnibake/extension"
	"github.com/cnibake/cnibake/profiles"
)

// defaultProfiles are built when none is named.
var defaultProfiles = []string{"talos", "talos-readonly", "generic-linux", "init-container"}

type buildOptions struct {
	profiles      []string
	architectures []string
	source        string
	pin           string
	out           string
	with, without []string
	compression   string
	packaging     string
	installer     string
	allowUnpinned bool
	jobs          int
}

func (o *buildOptions) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVar(&o.architectures, "arch", nil, "architectures to build, of amd64, arm64 and arm; Talos has no arm (default: each profile's own)")
	flags.StringVar(&o.source, "source", "module", "where the plugins come from: module (compile the pinned Go module), release (download upstream's archive), or the PATH of an archive or directory; {arch} in PATH is replaced")
	flags.StringVar(&o.pin, "pin", profiles.DefaultPin, "upstream version to build: a built-in `VERSION`, or a pin file")
	flags.StringVar(&o.out, "out", "dist", "output `DIR`; an earlier build in it is replaced, other files stay")
	flags.StringSliceVar(&o.with, "with", nil, "also carry these `PLUGINS`, which are left out by default; dhcp needs --packaging separate")
	flags.StringSliceVar(&o.without, "without", nil, "leave these `PLUGINS` out")
	flags.StringVar(&o.compression, "compression", "", "compress layers and tarballs with zstd, gzip or none (default: as the profile says)")
	flags.StringVar(&o.packaging, "packaging", "", "how to link the plugins: separate, or multicall for one program that goes by each plugin's name (default: as the profile says)")
	flags.StringVar(&o.installer, "installer", "", "take install-cni-plugins from this `PATH` instead of compiling it; {arch} is replaced")
	flags.BoolVar(&o.allowUnpinned, "allow-unpinned", false, "take an archive whose sum is not the pin's; build.json and the manifests record it")
	flags.IntVar(&o.jobs, "jobs", runtime.NumCPU(), "layers to compress at once")

	for flag, values := range map[string][]string{
		"arch": profiles.Architectures(), "source": {"module", "release"}, "pin": profiles.Pins(),
		"compression": {"zstd", "gzip", "none"}, "packaging": {"separate", "multicall"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveDefault))
	}
}

func (a *app) buildCommand() *cobra.Command {
	options := &buildOptions{}

	cmd := &cobra.Command{
		Use:   "build [PROFILE|FILE.yaml ...]",
		Short: "Build node-image artifacts with the plugins in them",
		Long: fmt.Sprintf(`Build takes the CNI plugins of the pin, an upstream version with its checksums, and
writes artifacts for each profile into the output directory: OCI layouts, tarballs, OCI archives,
an SBOM and the provenance of each, build.json and SHA256SUMS. The same pin,
toolchain and flags give the same artifacts, on any machine; the provenance also names the version of cnibake.
SOURCE_DATE_EPOCH sets the time inside the artifacts; without it, it is 0.

Without arguments it builds %s.
"cnibake profile list" shows all profiles; a profile of your own is a YAML file, named with a slash
or ending in .yaml. Its name: begins the file names of what is built.

Sources other than module have finished programs: what a profile would link into one stays separate.
Outside a checkout, an unreleased cnibake needs --installer for profiles that carry the installer.`, strings.Join(defaultProfiles, ", ")),
		Example: `  cnibake build
  cnibake build talos --arch amd64
  cnibake build generic-linux --with dhcp --source release
  cnibake build ./my-profile.yaml --source './cni-plugins-linux-{arch}-v1.9.1.tgz'`,
		ValidArgsFunction: cobra.FixedCompletions(profiles.Names(), cobra.ShellCompDirectiveDefault),
		RunE: func(cmd *cobra.Command, args []string) error {
			options.profiles = args

			return a.build(cmd.Context(), *options)
		},
	}

	options.addFlags(cmd)
	a.addOutputFlag(cmd)

	return cmd
}

func (a *app) build(ctx context.Context, o buildOptions) error {
	if o.jobs < 1 {
		return fmt.Errorf("jobs %d: at least one layer has to be compressed at a time", o.jobs)
	}

	created, err := a.sourceDate()
	if err != nil {
		return err
	}

	pin, err := profiles.LoadPin(o.pin)
	if err != nil {
		return err
	}

	chosen, err := o.loadProfiles()
	if err != nil {
		return err
	}

	var packaging profiles.Packaging
	if o.packaging != "" {
		if packaging, err = profiles.ParsePackaging(o.packaging); err != nil {
			return err
		}
	}

	cached, err := a.cache()
	if err != nil {
		return err
	}

	cache := builder.FileCache{Cache: cached}
	toolchain := builder.NewToolchain(ctx, a.environ)

	source, err := a.source(o, chosen, cache, toolchain)
	if err != nil {
		return err
	}

	report, err := builder.Build(ctx, builder.Options{
		Pin:           pin,
		Profiles:      chosen,
		Architectures: o.architectures,
		Packaging:     packaging,
		Plugins:       profiles.Selection{With: o.with, Without: o.without},
		Source:        source,
		Installer:     func() (installer.Source, error) { return findInstaller(o.installer, toolchain, cache) },
		Formats: map[profiles.Format]builder.Format{
			profiles.FormatTalosExtension: extension.Format{},
			profiles.FormatArchive:        builder.Archive{},
			profiles.FormatImage:          builder.Image{},
		},
		Packer:    oci.NewPacker(cache, o.jobs),
		Out:       o.out,
		Created:   created,
		Toolchain: toolchain.UsedVersion,
		Version:   ownVersion(),
		Log:       a.log(),
	})
	if err != nil {
		return err
	}

	if a.output == "json" {
		encoded, err := report.Encode()
		if err != nil {
			return err
		}

		_, err = a.stdout.Write(encoded)

		return err
	}

	return printReport(a.stdout, report, o.out)
}

// loadProfiles loads the named profiles and applies what the flags say about all of them.
func (o buildOptions) loadProfiles() ([]profiles.Profile, error) {
	names := o.profiles
	if len(names) == 0 {
		names = defaultProfiles
	}

	chosen := make([]profiles.Profile, 0, len(names))

	for _, name := range names {
		profile, err := profiles.Load(name)
		if err != nil {
			return nil, err
		}

		if o.compression != "" {
			if profile.Compression, err = profiles.ParseCompression(o.compression); err != nil {
				return nil, err
			}
		}

		chosen = append(chosen, profile)
	}

	return chosen, nil
}

// source returns the source that --source names.
func (a *app) source(o buildOptions, chosen []profiles.Profile, cache builder.FileCache, toolchain *builder.Toolchain) (plugins.Source, error) {
	switch o.source {
	case "module":
		return &plugins.ModuleSource{Compiler: toolchain, Merge: toolchain, Cache: cache, Log: a.log()}, nil
	case "release":
		return &plugins.ReleaseSource{Client: &http.Client{}, Cache: cache, Log: a.log(), Progress: a.progress()}, nil
	}

	arch := chosen[0].Architectures[0]
	if len(o.architectures) > 0 {
		arch = o.architectures[0]
	}

	info, err := os.Stat(strings.ReplaceAll(o.source, "{arch}", arch))

	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("source %q: no such file or directory: use module, release, or the path of an archive or directory", o.source)
	case err != nil:
		return nil, fmt.Errorf("reading source: %w", err)
	case info.IsDir():
		return &plugins.DirectorySource{Path: o.source}, nil
	case info.Mode().IsRegular():
		return &plugins.ArchiveSource{Path: o.source, AllowUnpinned: o.allowUnpinned}, nil
	default:
		return nil, fmt.Errorf("source %q is neither a file nor a directory", o.source)
	}
}

func findInstaller(path string, toolchain *builder.Toolchain, cache builder.FileCache) (installer.Source, error) {
	if path != "" {
		return &installer.FileSource{Path: path}, nil
	}

	workDir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("finding the installer's source: %w", err)
	}

	own, _ := debug.ReadBuildInfo()

	source, err := installer.Find(workDir, own, toolchain)
	if err != nil {
		return nil, err
	}

	return &installer.CachedSource{Source: source, Toolchain: toolchain, Cache: cache}, nil
}

// sourceDate is SOURCE_DATE_EPOCH (https://reproducible-builds.org/specs/source-date-epoch/), or 0.
func (a *app) sourceDate() (time.Time, error) {
	text := a.env("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}

	// The year 9999 is the last that RFC 3339 can write.
	const last = 253402300799

	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > last {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is not a number of seconds since 1970: correct or unset it", text)
	}

	return time.Unix(seconds, 0).UTC(), nil
}

func printReport(w io.Writer, report *builder.Report, out string) error {
	fmt.Fprintf(w, "cni-plugins %s from source %s in %s\n\n", report.Version, report.Source, out)

	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ARTIFACT\tKIND\tARCH\tSIZE\tDIGEST")

	for _, profile := range report.Profiles {
		for _, artifact := range profile.Artifacts {
			if artifact.Kind != builder.KindOCILayout {
				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", artifact.Name, artifact.Kind, artifact.Arch, size(artifact.Size), artifact.Digest)

				continue
			}

			for _, image := range artifact.Images {
				var pulled int64
				for _, layer := range image.Layers {
					pulled += layer.Size
				}

				fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", artifact.Name, artifact.Kind, image.Arch, size(pulled), image.Digest)
			}
		}
	}

	return table.Flush()
}
