package kubernetes

import (
	"bytes"
	"fmt"
)

// Manifest is a list of objects, or of patches for objects.
type Manifest struct {
	documents []document
	// base is the file that patches are for; empty where the documents are whole objects.
	base string
	// baseHelp says where that file comes from.
	baseHelp string
}

// File is one file of a kustomization.
type File struct {
	Name string
	Data []byte
}

// YAML returns the manifest as one stream of documents.
func (m *Manifest) YAML() ([]byte, error) {
	var out bytes.Buffer

	for i, d := range m.documents {
		if i > 0 {
			out.WriteString("---\n")
		}

		data, err := d.encode()
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", d.file, err)
		}

		out.Write(data)
	}

	return out.Bytes(), nil
}
