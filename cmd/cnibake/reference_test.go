package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/cnibake/cnibake/profiles"
	"github.com/cnibake/cnibake/profiles/distro"
)

var update = flag.Bool("update", false, "write the reference in docs/ anew")

// TestReference keeps docs/reference in step with the code that it repeats.
func TestReference(t *testing.T) {
	t.Parallel()

	for name, write := range map[string]func(*testing.T, io.Writer){
		"commands.md":      writeCommands,
		"distributions.md": writeDistributions,
		"plugins.md":       writePlugins,
		"profiles.md":      writeProfiles,
	} {
		var want bytes.Buffer

		fmt.Fprintln(&want, "<!-- Generated from the code: make docs -->")
		write(t, &want)

		file := filepath.Join("../../docs/reference", name)

		if *update {
			if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}

			continue
		}

		got, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want.String(), string(got)); diff != "" {
			t.Errorf("%s is no longer true; run make docs (-code +docs):\n%s", file, diff)
		}
	}
}

func writeCommands(t *testing.T, w io.Writer) {
	t.Helper()

	a := &app{stdout: io.Discard, stderr: io.Discard}
	root := a.rootCommand()
	root.DisableAutoGenTag = true
	// The number of cores is this machine's.
	if jobs := find(root, "build").Flags().Lookup("jobs"); jobs != nil {
		jobs.DefValue = "number of cores"
	}

	fmt.Fprintln(w, "\n# Commands")

	var walk func(cmd *cobra.Command)

	walk = func(cmd *cobra.Command) {
		var section bytes.Buffer
		if err := doc.GenMarkdownCustom(cmd, &section, func(string) string { return "" }); err != nil {
			t.Fatal(err)
		}

		text, _, _ := strings.Cut(section.String(), "### SEE ALSO")
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(text))

		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub)
			}
		}
	}

	walk(root)
}

func find(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name {
			return sub
		}
	}

	return cmd
}

func writePlugins(t *testing.T, w io.Writer) {
	t.Helper()

	fmt.Fprintln(w, "\n# Plugins")

	for _, version := range profiles.Pins() {
		pin, err := profiles.LoadPin(version)
		if err != nil {
			t.Fatal(err)
		}

		fmt.Fprintf(w, "\n## %s\n\nGo module `%s %s`, packaged as `%s`.\n\n| carried | kind |\n|---|---|\n",
			version, pin.Module.Path, pin.Version, pin.PackagedVersion())

		for _, plugin := range pin.Plugins {
			fmt.Fprintf(w, "| `%s` | %s |\n", plugin.Name, plugin.Kind)
		}

		fmt.Fprintf(w, "\n| left out unless asked for (`--with NAME`) | kind | why |\n|---|---|---|\n")

		for _, left := range pin.LeftOut {
			fmt.Fprintf(w, "| `%s` | %s | %s |\n", left.Name, left.Kind, left.Reason)
		}

		fmt.Fprintf(w, "\n| also written by | last compared with | names both carry |\n|---|---|---|\n")

		for _, marker := range pin.Markers {
			fmt.Fprintf(w, "| %s | %s | `%s` |\n", marker.Writer, marker.Release, strings.Join(marker.Overlap, "`, `"))
		}
	}
}

func writeProfiles(t *testing.T, w io.Writer) {
	t.Helper()

	fmt.Fprint(w, "\n# Profiles\n\n`cnibake profile show NAME` prints one as YAML.\n\n",
		"| profile | what | format | plugins in | names the platform ships | packaging | compression |\n|---|---|---|---|---|---|---|\n")

	for _, name := range profiles.Names() {
		p, err := profiles.Load(name)
		if err != nil {
			t.Fatal(err)
		}

		fmt.Fprintf(w, "| `%s` | %s | %s | `%s` | %s | %s | %s |\n", p.Name, p.Description, p.Format, p.PluginDir, p.Overlap, p.Packaging, p.Compression)
	}
}

func writeDistributions(_ *testing.T, w io.Writer) {
	fmt.Fprint(w, "\n# Distributions\n\nWhat `--distro` knows. Names that a distribution ships itself are left to it, unless `--take-over` is given.\n\n",
		"| distribution | plugins in | configuration in | ships itself | remarks |\n|---|---|---|---|---|\n")

	for _, d := range distro.All() {
		owned, remarks := "", []string{}

		if len(d.PlatformOwned) > 0 {
			owned = "`" + strings.Join(d.PlatformOwned, "`, `") + "`"
		}

		for _, remark := range []string{
			d.Note,
			optional("no Kubernetes manifest: %s", d.NoManifest),
			optional("mount `%s` where plugins are resolved in a container", d.LinkDir),
			optional("upper directory of the overlay: `%s`", d.OverlayUpper),
			optional("earlier releases: `%s`", strings.Join(d.FormerBinDirs, "`, `")),
			optional("the kubelet's directory is `%s`", other(d.KubeletDir, "/var/lib/kubelet")),
			optional("Multus has to mount `%s`", other(d.NetNSDir, "/run/netns")),
		} {
			if remark != "" {
				remarks = append(remarks, remark)
			}
		}

		fmt.Fprintf(w, "| `%s` | `%s` | `%s` | %s | %s |\n", d.Name, d.BinDir, d.ConfDir, owned, strings.Join(remarks, "; "))
	}

	fmt.Fprint(w, "\n## Sources\n\n| distribution | facts | where | read |\n|---|---|---|---|\n")

	for _, d := range distro.All() {
		for _, s := range d.Sources {
			fmt.Fprintf(w, "| `%s` | %s | %s | %s |\n", d.Name, strings.Join(s.Facts, ", "), s.Where, s.Date)
		}
	}
}

// optional returns the sentence about a value, where there is one.
func optional(format, value string) string {
	if value == "" {
		return ""
	}

	return fmt.Sprintf(format, value)
}

// other returns a value that is not the usual one.
func other(value, usual string) string {
	if value == usual {
		return ""
	}

	return value
}
