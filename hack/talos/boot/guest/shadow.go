package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// The names that the first boot hides in /opt, each in its way.
const (
	stale   = "bridge"  // an older copy, left by somebody's installer
	stale2  = "macvlan" // another
	same    = "tuning"  // an equal copy: harmless until the next image
	deleted = "vlan"    // deleted, which leaves a whiteout
	kept    = "sbr"     // an older copy that nobody removes: the control
)

const installer = "/usr/bin/install-cni-plugins"

// shadowedNow are the names that are meant to be hidden while the layout is checked.
func shadowedNow(p plan.Plan) map[string]bool {
	if p.Second && p.PluginDir == plan.OptDir {
		return map[string]bool{kept: true}
	}

	return nil
}

// plantShadows writes into /opt what other programs write there, and looks at it with our own.
func plantShadows(r *recorder, p plan.Plan) {
	if !r.check("shadow", "other writers leave their copies in /opt", plant) {
		return
	}

	if p.PluginDir != plan.OptDir {
		r.check("shadow", "the read-only plugins are not affected", func() error { return allRight(p, p.Plugins) })
		r.check("shadow", "verify finds nothing in the read-only directory", func() error {
			return wantVerdict(p, 0, nil)
		})

		return
	}

	r.check("shadow", "a stale copy runs instead of the baked plugin", func() error { return wantStale(stale, stale2) })

	hidden := map[string]string{stale: "differing", stale2: "differing", deleted: "whiteout", same: "same"}

	r.check("shadow", "verify reports what hides", func() error { return wantVerdict(p, 1, hidden) })
	r.check("shadow", "unshadow shows first and removes nothing", func() error { return unshadow(hidden, false) })
	r.check("shadow", "unshadow --yes removes exactly these", func() error { return unshadow(hidden, true) })
	r.check("shadow", "another stale copy comes and stays", func() error { return leaveStale(kept) })
}

// checkAfterReboot is in the second boot, from an image with other plugins, on the same disk.
func checkAfterReboot(r *recorder, p plan.Plan) {
	if p.PluginDir != plan.OptDir {
		r.check("shadow", "the next image's read-only plugins run", func() error { return allRight(p, p.Plugins) })
		r.check("shadow", "a stale copy in /opt is still there and hides nothing", func() error { return wantStale(stale) })
		r.check("shadow", "verify finds nothing in the read-only directory", func() error { return wantVerdict(p, 0, nil) })

		return
	}

	for _, name := range []string{stale, stale2, same, deleted} {
		r.check("shadow", name+" is the next image's", func() error { return allRight(p, only(p, name)) })
	}

	r.check("shadow", "what was not removed hides the next image's plugin", func() error { return wantStale(kept) })
	r.check("shadow", "verify reports it", func() error { return wantVerdict(p, 1, map[string]string{kept: "differing"}) })
}

// plant writes through the overlay, as a container does that has /opt/cni/bin mounted.
func plant() error {
	for _, name := range []string{stale, stale2} {
		if err := leaveStale(name); err != nil {
			return err
		}
	}

	copied, err := os.ReadFile(filepath.Join(plan.OptDir, same))
	if errors.Is(err, os.ErrNotExist) {
		return nil // the read-only shape: Talos itself has neither of the rest
	} else if err != nil {
		return err
	}

	if err := replace(filepath.Join(plan.OptDir, same), bytes.NewReader(copied)); err != nil {
		return err
	}

	return os.Remove(filepath.Join(plan.OptDir, deleted))
}

func leaveStale(name string) error {
	program, err := os.Open("/sbin/init")
	if err != nil {
		return err
	}
	defer program.Close()

	return replace(filepath.Join(plan.OptDir, name), program)
}

func replace(path string, content io.Reader) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}

	if _, err := io.Copy(file, content); err != nil {
		return err
	}

	if err := file.Close(); err != nil {
		return err
	}

	return os.Rename(path+".new", path)
}

func wantStale(names ...string) error {
	for _, name := range names {
		said, err := says(filepath.Join(plan.OptDir, name))
		if err != nil {
			return err
		}

		if !strings.HasSuffix(said, "plugin unknown") {
			return fmt.Errorf("%s says %q, so it is not the stale copy", name, said)
		}
	}

	return nil
}

func only(p plan.Plan, name string) []plan.Plugin {
	return slices.DeleteFunc(slices.Clone(p.Plugins), func(plugin plan.Plugin) bool { return plugin.Name != name })
}

func allRight(p plan.Plan, plugins []plan.Plugin) error {
	for _, plugin := range plugins {
		if err := checkFile(filepath.Join(p.PluginDir, plugin.Name), plugin); err != nil {
			return fmt.Errorf("%s: %w", plugin.Name, err)
		}
	}

	return nil
}

// wantVerdict runs verify and compares its exit code and, by name, what it says hides a plugin.
func wantVerdict(p plan.Plan, exit int, hidden map[string]string) error {
	args := []string{"verify", "--dest", p.PluginDir, "-o", "json"}
	if p.PluginDir == plan.OptDir {
		args = append(args, "--upper", plan.UpperDir)
	}

	out, err := runInstaller(exit, args...)
	if err != nil {
		return err
	}

	var verdict struct {
		Plugins []struct {
			Name   string `json:"name"`
			Shadow string `json:"shadow"`
		} `json:"plugins"`
	}

	if err := json.Unmarshal(out, &verdict); err != nil {
		return fmt.Errorf("decoding %s: %w", out, err)
	}

	if len(verdict.Plugins) != len(p.Plugins) {
		return fmt.Errorf("it speaks of %d plugins, want %d: %s", len(verdict.Plugins), len(p.Plugins), out)
	}

	for _, plugin := range verdict.Plugins {
		if plugin.Shadow != hidden[plugin.Name] {
			return fmt.Errorf("it says %q of %s, want %q", plugin.Shadow, plugin.Name, hidden[plugin.Name])
		}
	}

	return nil
}

// unshadow wants each hidden name to be named, and its entry in the upper directory to be gone
// afterwards only if that was asked for.
func unshadow(hidden map[string]string, act bool) error {
	args := []string{"unshadow", "--dest", plan.OptDir, "--upper", plan.UpperDir}
	if act {
		args = append(args, "--yes")
	}

	out, err := runInstaller(0, args...)
	if err != nil {
		return err
	}

	if !bytes.Contains(out, []byte("reboot")) {
		return fmt.Errorf("it does not say that a reboot is needed: %s", out)
	}

	upper := filepath.Join(plan.UpperDir, "cni/bin")

	for name := range hidden {
		if !bytes.Contains(out, []byte(filepath.Join(upper, name)+":")) {
			return fmt.Errorf("it does not name %s: %s", name, out)
		}
	}

	left, err := os.ReadDir(upper)
	if err != nil {
		return err
	}

	want := len(hidden)
	if act {
		want = 0
	}

	if len(left) != want {
		return fmt.Errorf("%d entries are left in %s, want %d: %v\n%s", len(left), upper, want, left, out)
	}

	return nil
}

func runInstaller(exit int, args ...string) ([]byte, error) {
	cmd := exec.Command(installer, args...)

	var stderr bytes.Buffer
	cmd.Stderr = &stderr

	out, err := cmd.Output()

	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return nil, err
	}

	if got := cmd.ProcessState.ExitCode(); got != exit {
		return nil, fmt.Errorf("%s: exit code %d, want %d: %s%s", strings.Join(args, " "), got, exit, out, stderr.Bytes())
	}

	return out, nil
}
