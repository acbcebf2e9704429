package sameness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/cnibake/cnibake/builder/plugins/sameness"
)

// view is a program whose output shows a part of a network namespace.
type view struct {
	what      string
	command   string
	unordered bool
	nodeOnly  bool
}

var views = []view{
	{what: "links", command: "ip -d link"},
	{what: "addresses", command: "ip -o addr | grep -v 'inet6 fe80:'"},
	{what: "IPv4 routes", command: "ip -4 route show table all", unordered: true},
	// Link-local and multicast routes come when the kernel thinks a link is ready.
	{what: "IPv6 routes", command: "ip -6 route show table all | grep -vE 'fe80:|^(multicast|anycast)'", unordered: true},
	{what: "rules", command: "ip -4 rule; ip -6 rule"},
	// Only where somebody put a queueing discipline can there be classes and filters.
	{what: "traffic control", command: "tc qdisc; for i in $(tc qdisc | grep -v noqueue | sed 's/.* dev //; s/ .*//' | uniq); do tc class show dev $i; tc filter show dev $i; tc filter show dev $i parent ffff:; done"},
	{what: "bridge ports", command: "bridge -d link; bridge vlan", nodeOnly: true},
	// Plugins make the tables of both families in random order.
	{what: "nftables", command: "nft list tables | sort | while read -r table; do nft list $table; done", nodeOnly: true},
	{what: "iptables", command: "iptables-save; ip6tables-save", nodeOnly: true},
}

// Observe looks at node and pods.
func (w *world) Observe(ctx context.Context) ([]sameness.Observation, error) {
	seen, err := observe(ctx, "the node's", w.node, true)
	if err != nil {
		return nil, err
	}

	for _, p := range w.pods {
		err := p.inside(func() error {
			more, err := observe(ctx, p.name+"'s", p.sysctls, false)
			seen = append(seen, more...)

			return err
		})
		if err != nil {
			return nil, err
		}
	}

	files, err := readFiles()

	return append(seen, sameness.Observation{What: "files", Text: files}), err
}

// observe looks at the calling thread's network namespace.
func observe(ctx context.Context, whose string, before map[string]string, node bool) ([]sameness.Observation, error) {
	// One shell for all: starting programs is most of the time this takes.
	const separator = "\x1e"

	var (
		script strings.Builder
		shown  []view
	)

	for _, v := range views {
		if node || !v.nodeOnly {
			fmt.Fprintf(&script, "(%s) 2>&1; printf '%s'\n", v.command, separator)

			shown = append(shown, v)
		}
	}

	out, err := exec.CommandContext(ctx, "sh", "-c", script.String()).Output()
	if err != nil {
		return nil, fmt.Errorf("looking at %s network: %w", whose, err)
	}

	texts := strings.Split(string(out), separator)
	if len(texts) != len(shown)+1 {
		return nil, fmt.Errorf("looking at %s network gave %q", whose, out)
	}

	var seen []sameness.Observation

	for i, v := range shown {
		seen = append(seen, sameness.Observation{What: whose + " " + v.what, Text: texts[i], Unordered: v.unordered})
	}

	after, err := readSysctls()
	if err != nil {
		return nil, err
	}

	var changed []string

	for name, value := range after {
		if before[name] != value {
			changed = append(changed, name+" = "+value)
		}
	}

	slices.Sort(changed)

	return append(seen, sameness.Observation{What: whose + " sysctls", Text: strings.Join(changed, "\n"), Unordered: true}), nil
}

// readSysctls reads all sysctls of the calling thread's network namespace that do not count or measure.
func readSysctls() (map[string]string, error) {
	const root = "/proc/sys/net"

	values := make(map[string]string)

	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		switch entry.Name() {
		case "nf_conntrack_count", "stable_secret", "tcp_fastopen_key", "random_seed":
			return nil
		}

		// Some can only be written.
		if data, err := os.ReadFile(path); err == nil {
			values[strings.TrimPrefix(path, root+"/")] = string(bytes.TrimSpace(data))
		}

		return nil
	})

	// Interfaces of another process in the namespace may go meanwhile; ours has none.
	return values, err
}

// readFiles returns every file that anything wrote on the node, with what is in it.
func readFiles() (string, error) {
	var out strings.Builder

	for _, dir := range []string{"/run", "/var/lib"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case path == sameness.BinDir:
				return fs.SkipDir
			}

			info, err := entry.Info()
			if err != nil {
				return err
			}

			fmt.Fprintf(&out, "%s %s", info.Mode(), path)

			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				fmt.Fprintf(&out, " %d:%d", stat.Uid, stat.Gid)
			}

			fmt.Fprintln(&out)

			// A pod's namespace is a file one cannot read.
			if !entry.Type().IsRegular() || filepath.Dir(path) == sameness.NetnsDir {
				return nil
			}

			data, err := os.ReadFile(path)
			fmt.Fprintf(&out, "%s\n", data)

			return err
		})
		if err != nil {
			return "", err
		}
	}

	return out.String(), nil
}
