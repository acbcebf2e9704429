// Package corpus holds extensions that are broken on purpose, says what the imager makes of each, and
// holds cnibake lint to it: whatever the imager refuses or silently ruins, lint has to find.
package corpus

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// Entry is one entry of a tar.
type Entry struct {
	tar.Header
	Body []byte
}

// Archive is a tar, entry by entry.
type Archive []Entry

// Read reads a tar.
func Read(path string) (Archive, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()

	var archive Archive

	for reader := tar.NewReader(file); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return archive, nil
		}

		if err != nil {
			return nil, err
		}

		body, err := io.ReadAll(reader)
		if err != nil {
			return nil, err
		}

		// The writer prefers this old field to the record it was read from.
		header.Xattrs = nil //nolint:staticcheck

		archive = append(archive, Entry{Header: *header, Body: body})
	}
}

// Bytes is the tar as a file.
func (a Archive) Bytes() ([]byte, error) {
	var out bytes.Buffer

	writer := tar.NewWriter(&out)

	for _, entry := range a {
		header := entry.Header
		header.Format = tar.FormatPAX
		header.Size = int64(len(entry.Body))

		if err := writer.WriteHeader(&header); err != nil {
			return nil, err
		}

		if _, err := writer.Write(entry.Body); err != nil {
			return nil, err
		}
	}

	return out.Bytes(), writer.Close()
}

// clone copies as deep as changes go.
func (a Archive) clone() Archive {
	a = slices.Clone(a)
	for i := range a {
		a[i].PAXRecords = maps.Clone(a[i].PAXRecords)
	}

	return a
}

// at is the index of an entry; a directory's name ends with a slash. A name that is not there is a
// mistake in the corpus.
func (a Archive) at(name string) int {
	i := slices.IndexFunc(a, func(e Entry) bool { return e.Name == name })
	if i < 0 {
		panic("the good archive has no " + name)
	}

	return i
}

// file is an entry as a careless archiver writes it, without a label.
func file(name, body string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, Body: []byte(body)}
}

func directory(name string, mode int64) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimSuffix(name, "/") + "/", Mode: mode}}
}

func symlink(name, target string) Entry {
	return Entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}
