package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// checkLayout looks at the files as a container runtime of the node finds them.
func checkLayout(r *recorder, p plan.Plan) {
	for _, dir := range []string{"/", "/opt", "/opt/cni", plan.OptDir, "/etc", "/usr", "/usr/local", p.PluginDir} {
		r.check("layout", dir+" is 0755", func() error { return wantMode(dir, fs.ModeDir|0o755) })
	}

	r.check("layout", "manifest", func() error { return checkCarried(p) })

	hidden := shadowedNow(p)

	for _, plugin := range p.Plugins {
		if hidden[plugin.Name] {
			continue
		}

		path := filepath.Join(p.PluginDir, plugin.Name)

		r.check("layout", path, func() error { return checkFile(path, plugin) })
	}

	r.check("layout", "Talos's own plugins", func() error { return checkTalosOwn(p) })

	if p.PluginDir == plan.ReadonlyDir {
		r.check("layout", "read-only", checkReadonly)
	}
}

func wantMode(path string, want fs.FileMode) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}

	if info.Mode() != want {
		return fmt.Errorf("mode %s, want %s", info.Mode(), want)
	}

	return nil
}

// checkFile holds a plugin to its digest, and runs it for what it says of itself.
func checkFile(path string, want plan.Plugin) error {
	if err := wantMode(path, 0o755); err != nil {
		return err
	}

	if got, err := digest(path); err != nil || got != want.Digest {
		return fmt.Errorf("digest %s (%v), want %s", got, err, want.Digest)
	}

	said, err := says(path)
	if err != nil {
		return err
	}

	if want := fmt.Sprintf("CNI %s plugin %s", want.Name, want.Version); !strings.Contains(said, want) {
		return fmt.Errorf("it says %q, want %q", said, want)
	}

	return nil
}

// says runs a plugin without a command, which makes it tell its version on stderr.
func says(path string) (string, error) {
	out, err := exec.Command(path).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("running %s: %w: %s", path, err, out)
	}

	return strings.TrimSpace(string(out)), nil
}

// checkCarried compares the manifest beside the plugins with what the build said.
func checkCarried(p plan.Plan) error {
	text, err := os.ReadFile(filepath.Join(p.PluginDir, ".cni-plugins.json"))
	if err != nil {
		return err
	}

	var manifest struct {
		Plugins []plan.Plugin `json:"plugins"`
	}

	if err := json.Unmarshal(text, &manifest); err != nil {
		return err
	}

	if len(manifest.Plugins) != len(p.Plugins) {
		return fmt.Errorf("it lists %d plugins, want %d", len(manifest.Plugins), len(p.Plugins))
	}

	for i, plugin := range manifest.Plugins {
		if plugin != p.Plugins[i] {
			return fmt.Errorf("it lists %+v, want %+v", plugin, p.Plugins[i])
		}
	}

	return nil
}

// checkTalosOwn wants every name that Talos itself ships to be there still: those that the extension
// carries too as the extension's, the others as Talos's.
func checkTalosOwn(p plan.Plan) error {
	hidden := shadowedNow(p)

	for _, name := range plan.TalosOwn {
		if p.PluginDir == plan.OptDir && carries(p, name) || hidden[name] || p.Second {
			continue
		}

		said, err := says(filepath.Join(plan.OptDir, name))
		if err != nil {
			return err
		}

		if !strings.HasSuffix(said, "plugin unknown") {
			return fmt.Errorf("%s in %s is not Talos's: it says %q", name, plan.OptDir, said)
		}
	}

	return nil
}

func carries(p plan.Plan, name string) bool {
	for _, plugin := range p.Plugins {
		if plugin.Name == name {
			return true
		}
	}

	return false
}

// checkReadonly wants no way to put anything over the plugins.
func checkReadonly() error {
	err := os.WriteFile(filepath.Join(plan.ReadonlyDir, "bridge"), nil, 0o755)
	if !errors.Is(err, unix.EROFS) {
		return fmt.Errorf("writing over a plugin: %v, want EROFS", err)
	}

	return nil
}

func digest(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()

	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}

	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}
