package boot

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// kernelVariable names the directory that hack/talos-packages has unpacked a kernel package into.
const kernelVariable = "CNIBAKE_KERNEL"

// Kernel is an unpacked kernel package.
type Kernel struct {
	// Image is the file to boot.
	Image string
	// modules is the directory of modules.dep.
	modules string
}

// FindKernel looks where hack/talos-packages puts the kernel.
func FindKernel() (*Kernel, error) {
	dir := os.Getenv(kernelVariable)
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}

		dir = filepath.Join(cache, "cnibake-talos", "kernel")
	}

	image, err := one(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil {
		return nil, err
	}

	dep, err := one(filepath.Join(dir, "lib", "modules", "*", "modules.dep"))
	if err != nil {
		return nil, err
	}

	return &Kernel{Image: image, modules: filepath.Dir(dep)}, nil
}

func one(pattern string) (string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}

	if len(found) != 1 {
		return "", fmt.Errorf("%s: %d files, want one", pattern, len(found))
	}

	return found[0], nil
}

// CopyModules copies modules and what they need into dir, numbered so that a module comes after what
// it needs. What is built into the kernel is left out.
func (k *Kernel) CopyModules(dir string, names []string) error {
	needs, err := k.dependencies()
	if err != nil {
		return err
	}

	builtin, err := os.ReadFile(filepath.Join(k.modules, "modules.builtin"))
	if err != nil {
		return err
	}

	var order []string

	for _, name := range names {
		path, ok := find(needs, name)

		switch {
		case ok:
			// modules.dep lists what has to be loaded first last.
			for _, needed := range append([]string{path}, needs[path]...) {
				order = slices.DeleteFunc(order, func(p string) bool { return p == needed })
				order = append([]string{needed}, order...)
			}
		case !strings.Contains(string(builtin), "/"+name+".ko\n"):
			return fmt.Errorf("the kernel has no module %s", name)
		}
	}

	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	for i, path := range order {
		content, err := os.ReadFile(filepath.Join(k.modules, path))
		if err != nil {
			return err
		}

		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d-%s", i, filepath.Base(path))), content, 0o644); err != nil {
			return err
		}
	}

	return nil
}

// dependencies reads modules.dep: the path of each module and those of what it needs.
func (k *Kernel) dependencies() (map[string][]string, error) {
	file, err := os.Open(filepath.Join(k.modules, "modules.dep"))
	if err != nil {
		return nil, err
	}
	defer file.Close()

	needs := map[string][]string{}

	for scanner := bufio.NewScanner(file); ; {
		if !scanner.Scan() {
			if err := scanner.Err(); err != nil {
				return nil, err
			}

			break
		}

		module, needed, ok := strings.Cut(scanner.Text(), ":")
		if !ok {
			return nil, errors.New("modules.dep has a line without a colon")
		}

		needs[module] = strings.Fields(needed)
	}

	return needs, nil
}

func find(needs map[string][]string, name string) (string, bool) {
	for path := range needs {
		if base, _, _ := strings.Cut(filepath.Base(path), "."); strings.ReplaceAll(base, "-", "_") == name {
			return path, true
		}
	}

	return "", false
}
