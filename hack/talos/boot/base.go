package boot

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// Programs are what goes into the machine besides the extension.
type Programs struct {
	// TalosInit is Talos's own init, Early what loads modules before it, Guest the test's /sbin/init.
	TalosInit, Early, Guest string
	// Installer is install-cni-plugins.
	Installer string
}

// nodeTools are the packet filter programs that plugins call. Talos has them in its image, too.
var nodeTools = []string{"/usr/sbin/xtables-nft-multi", "/usr/sbin/nft"}

// nodeLinks are the names under which a Talos node has them.
var nodeLinks = []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"}

const xtables = "/usr/lib/x86_64-linux-gnu/xtables"

// writeBase makes the small root file system that stands for Talos's own: the mount points, Talos's
// own plugins, the packet filter programs, and the test as /sbin/init.
func writeBase(root string, kernel *Kernel, programs Programs, p plan.Plan) error {
	for _, dir := range []string{"dev", "proc", "sys", "run", "system", "var", "tmp", "root", "etc/cni", "etc/cri/conf.d", "opt/cni/bin", "usr/bin", "usr/sbin", "usr/local", "usr/lib"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}

	for link, target := range map[string]string{"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"} {
		if err := os.MkdirAll(filepath.Join(root, target), 0o755); err != nil {
			return err
		}

		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			return err
		}
	}

	// Talos's init binds the list of layers over this file.
	if err := os.WriteFile(filepath.Join(root, "etc/extensions.yaml"), nil, 0o644); err != nil {
		return err
	}

	files := map[string]string{"usr/sbin/init": programs.Guest, "usr/bin/install-cni-plugins": programs.Installer}
	for _, name := range plan.TalosOwn {
		files[filepath.Join(plan.OptDir, name)] = programs.Guest
	}

	for name, from := range files {
		if err := copyFile(from, filepath.Join(root, name)); err != nil {
			return err
		}
	}

	if err := writeTools(root); err != nil {
		return err
	}

	if err := kernel.CopyModules(filepath.Join(root, "usr/lib/test-modules"), testModules); err != nil {
		return err
	}

	text, err := json.Marshal(p)
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(root, plan.Path), text, 0o644)
}

func writeTools(root string) error {
	for _, tool := range nodeTools {
		if err := copyProgram(root, tool); err != nil {
			return fmt.Errorf("copying %s: %w", tool, err)
		}
	}

	extensions, err := filepath.Glob(filepath.Join(xtables, "*.so"))
	if err != nil {
		return err
	}

	for _, extension := range extensions {
		if err := copyFile(extension, filepath.Join(root, extension)); err != nil {
			return err
		}
	}

	for _, link := range nodeLinks {
		if err := os.Symlink("xtables-nft-multi", filepath.Join(root, "usr/sbin", link)); err != nil {
			return err
		}
	}

	return nil
}
