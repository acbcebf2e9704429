package profiles

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

//go:embed pins/*.yaml
var pinFiles embed.FS

//go:embed profiles/*.yaml
var profileFiles embed.FS

// builtin returns the names of the embedded YAML files of a directory, without their ending, sorted.
func builtin(files embed.FS, dir string) []string {
	entries, err := files.ReadDir(dir)
	if err != nil {
		panic(err) // the directory is compiled in
	}

	var names []string

	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), ".yaml"))
	}

	slices.Sort(names)

	return names
}

// read returns the YAML text of what is built in under a name, or of the user's file that the argument names,
// and what messages call it. kind is pin or profile, and names are those that are built in.
func read(kind string, files embed.FS, nameOrFile string, names []string) (file string, data []byte, err error) {
	if isFile(nameOrFile) {
		data, err = readFile(nameOrFile)
		if err != nil {
			return "", nil, fmt.Errorf("reading %s: %w", kind, err)
		}

		return nameOrFile, data, nil
	}

	file = path.Join(kind+"s", nameOrFile+".yaml")

	data, err = files.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrInvalid) {
		return "", nil, fmt.Errorf("unknown %s %q: built in are %s; a file of your own is named with a slash or ending in .yaml",
			kind, nameOrFile, strings.Join(names, ", "))
	}

	if err != nil {
		return "", nil, fmt.Errorf("reading %s %s: %w", kind, nameOrFile, err)
	}

	return file, data, nil
}

// isFile tells a file name from the name of something built in.
func isFile(argument string) bool {
	return strings.ContainsRune(argument, os.PathSeparator) || path.Ext(argument) == ".yaml" || path.Ext(argument) == ".yml"
}

// readFile reads a user's YAML file, which must be a regular file of at most maxDocument bytes.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}

	// A FIFO would block for ever.
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}

	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	return io.ReadAll(io.LimitReader(file, maxDocument+1))
}
