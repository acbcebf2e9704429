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
)

var update = flag.Bool("update", false, "write the reference in docs/ anew")

// TestReference keeps docs/reference in step with the code that it repeats.
func TestReference(t *testing.T) {
	t.Parallel()

	for name, write := range map[string]func(*testing.T, io.Writer){
		"commands.md": writeCommands,
		"plugins.md":  writePlugins,
		"profiles.md": writeProfiles,
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
