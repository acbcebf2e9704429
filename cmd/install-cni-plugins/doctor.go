package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/doctor"
)

// maxDaemonConfig bounds what is read of Multus's configuration, in bytes.
const maxDaemonConfig = 256 << 10

type doctorOptions struct {
	doctor.Options
	nads         []string
	multusConfig string
	json, strict bool
}

// listFlag is a list separated by commas; given twice, the lists add up.
type listFlag struct{ to *[]string }

func (l listFlag) String() string { return "" }

func (l listFlag) Set(s string) error {
	for item := range strings.SplitSeq(s, ",") {
		if item = strings.TrimSpace(item); item == "" {
			return fmt.Errorf("%q has an empty item", s)
		}

		*l.to = append(*l.to, item)
	}

	return nil
}

// directoriesFlag is a list of absolute paths, or several such flags.
type directoriesFlag struct{ listFlag }

func (d directoriesFlag) Set(s string) error {
	if err := d.listFlag.Set(s); err != nil {
		return err
	}

	for _, dir := range *d.to {
		if !filepath.IsAbs(dir) {
			return fmt.Errorf("%q is not an absolute path", dir)
		}
	}

	return nil
}

func runDoctor(ctx context.Context, env environment, args []string, out io.Writer) error {
	var (
		o       doctorOptions
		confDir []string
	)

	flags := newFlags("doctor")
	flags.StringVar(&o.Root, "root", "", "")
	flags.StringVar(&o.MultusRoot, "multus-root", "", "")
	flags.Var(directoriesFlag{listFlag{&o.BinDirs}}, "bin-dir", "")
	flags.Var(directoriesFlag{listFlag{&confDir}}, "conf-dir", "")
	flags.StringVar(&o.Upper, "upper", "", "")
	flags.Var(listFlag{&o.nads}, "nad", "")
	flags.Var(listFlag{&o.VMs}, "vm", "")
	flags.StringVar(&o.multusConfig, "multus-config", "", "")
	flags.Var(directoriesFlag{listFlag{&o.MultusPath}}, "multus-path", "")
	flags.StringVar(&o.Source, "source", "/cni-plugins", "")
	flags.Var(distroFlag{&o.Distro}, "distro", "")
	flags.Var(outputFlag{&o.json}, "o", "")
	flags.Var(outputFlag{&o.json}, "output", "")
	addBool(flags, &o.strict, "strict")

	if err := env.parse(flags, args); err != nil {
		return err
	}

	if len(confDir) > 1 {
		return usagef("--conf-dir is one directory")
	}

	o.ConfDir = strings.Join(confDir, "")

	if err := o.complete(); err != nil {
		return err
	}

	for _, name := range o.nads {
		in := doctor.Input{Name: "standard input", Data: os.Stdin}

		if name != "-" {
			file, err := os.Open(name)
			if err != nil {
				return fmt.Errorf("reading attachments: %w", err)
			}
			defer file.Close()

			in = doctor.Input{Name: name, Data: file}
		}

		o.Inputs = append(o.Inputs, in)
	}

	return diagnose(ctx, &o, out)
}

// complete fills in what was not given: the node's root is /host where there is one, as in a pod, and
// the directories are those of the distribution.
func (o *doctorOptions) complete() error {
	if o.Root == "" {
		o.Root = "/"
		if _, err := os.Stat("/host"); err == nil {
			// In a pod of ours there is no shell; commands are for one on the node.
			o.Root, o.ShellRoot = "/host", "/"
		}
	}

	root, err := filepath.Abs(o.Root)
	if err != nil {
		return err
	}

	o.Root = root

	if len(o.BinDirs) == 0 {
		o.BinDirs = []string{cmp.Or(o.Distro.BinDir, "/opt/cni/bin")}
	}

	if o.ConfDir == "" {
		o.ConfDir, o.MayLackConfDir = cmp.Or(o.Distro.ConfDir, "/etc/cni/net.d"), true
	}

	for i := range o.BinDirs {
		o.BinDirs[i] = onNode(o.BinDirs[i], root)
	}

	o.ConfDir = onNode(o.ConfDir, root)

	if o.multusConfig != "" {
		if o.MultusConfig, err = readBounded(o.multusConfig, maxDaemonConfig); err != nil {
			return fmt.Errorf("reading Multus's configuration: %w", err)
		}
	}

	return nil
}

// onNode takes the root off a path that was given as seen from here.
func onNode(path, root string) string {
	if rest, ok := strings.CutPrefix(path, strings.TrimSuffix(root, "/")+"/"); ok && root != "/" {
		return "/" + rest
	}

	return path
}

// readBounded reads a regular file. Opening a FIFO must not block.
func readBounded(name string, limit int64) ([]byte, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}

	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s is larger than %d bytes", name, limit)
	}

	return data, err
}

func diagnose(ctx context.Context, o *doctorOptions, out io.Writer) error {
	d, err := doctor.Diagnose(ctx, &o.Options)

	switch {
	case err != nil:
		return err
	case len(d.Attachments) == 0 && len(d.Advice) == 0 && len(o.Inputs) == 0:
		return usagef("%s cannot be seen from here, so there is nothing to examine: give attachments with --nad", d.ConfDir)
	case o.json:
		err = writeJSON(out, d)
	default:
		writeDiagnosis(out, d)
	}

	if err != nil {
		return err
	}

	if !d.Good || o.strict && len(d.Advice) > 0 {
		return &answerNo{fmt.Sprintf("%d things to do, listed above", len(d.Advice))}
	}

	return nil
}

// writeDiagnosis writes a block for each attachment, one for the node, and what to do.
func writeDiagnosis(out io.Writer, d *doctor.Diagnosis) {
	for _, a := range d.Attachments {
		fmt.Fprintf(out, "%s", a.Name)

		if a.From != a.Name && a.From != a.Name+" spec.config" {
			fmt.Fprintf(out, " (%s)", a.From)
		}

		fmt.Fprintln(out)

		for _, p := range a.Plugins {
			text := cmp.Or(p.Path, "not found")

			if p.Version != "" {
				text += " " + p.Version
			}

			if len(p.Findings) == 0 {
				text += ", good"
			}

			fmt.Fprintf(out, "  %s %s: %s\n", p.Role, p.Type, text)
			writeFindings(out, "    ", p.Findings)
		}

		writeFindings(out, "  ", a.Findings)
	}

	if len(d.Node) > 0 {
		fmt.Fprintln(out, "the node")
		writeFindings(out, "  ", d.Node)
	}

	if len(d.Advice) == 0 {
		fmt.Fprintln(out, "\nNothing is wrong.")

		return
	}

	fmt.Fprint(out, "\nWhat to do, in this order:\n")

	for i, s := range d.Advice {
		fmt.Fprintf(out, "%d. %s\n", i+1, strings.ReplaceAll(s.Do, "\n", "\n       "))

		for _, c := range s.Commands {
			fmt.Fprintf(out, "       %s\n", c)
		}
	}
}

func writeFindings(out io.Writer, indent string, findings []doctor.Finding) {
	for _, f := range findings {
		kind := ""
		if f.Warning {
			kind = "warning: "
		}

		fmt.Fprintf(out, "%s%s%s: %s\n", indent, kind, f.Verdict, f.Text)
	}
}
