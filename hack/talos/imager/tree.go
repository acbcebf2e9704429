package imager

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Entry is what a node would see of one path.
type Entry struct {
	Mode fs.FileMode
	// Digest is that of a regular file's content, Link where a symlink points to.
	Digest string
	Link   string
}

// Tree reads a directory; paths are relative to it, and it is "." itself.
func Tree(dir string) (map[string]Entry, error) {
	tree := map[string]Entry{}

	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}

		info, err := d.Info()
		if err != nil {
			return err
		}

		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}

		entry := Entry{Mode: info.Mode()}

		switch {
		case entry.Mode.IsRegular():
			entry.Digest, err = digest(path)
		case entry.Mode&fs.ModeSymlink != 0:
			entry.Link, err = os.Readlink(path)
		}

		tree[name] = entry

		return err
	})

	return tree, err
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
