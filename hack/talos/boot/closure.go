package boot

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// libraryDirs is where Debian keeps what its programs are linked with.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64"}

// copyProgram copies a dynamically linked program of this machine, its interpreter and its libraries
// to the same paths below root.
func copyProgram(root, program string) error {
	queue, seen := []string{program}, map[string]bool{}

	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]

		if seen[path] {
			continue
		}

		seen[path] = true

		if err := copyFile(path, filepath.Join(root, path)); err != nil {
			return err
		}

		needed, err := linked(path)
		if err != nil {
			return err
		}

		queue = append(queue, needed...)
	}

	return nil
}

// linked returns the paths of a file's interpreter and libraries.
func linked(path string) ([]string, error) {
	file, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	defer file.Close()

	var paths []string

	if section := file.Section(".interp"); section != nil {
		text, err := section.Data()
		if err != nil {
			return nil, err
		}

		paths = append(paths, string(text[:len(text)-1]))
	}

	libraries, err := file.ImportedLibraries()
	if err != nil {
		return nil, err
	}

	for _, library := range libraries {
		i := slices.IndexFunc(libraryDirs, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, library))

			return err == nil
		})
		if i < 0 {
			return nil, fmt.Errorf("%s needs %s, which is in none of %v", path, library, libraryDirs)
		}

		paths = append(paths, filepath.Join(libraryDirs[i], library))
	}

	return paths, nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}

	return os.WriteFile(to, content, 0o755)
}
