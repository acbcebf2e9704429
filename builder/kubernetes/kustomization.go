package kubernetes

import (
	"bytes"
	"fmt"
)

// KustomizationMark begins a kustomization.yaml that this package wrote.
const KustomizationMark = "# Written by cnibake manifest."

// kustomization is the part of kustomize's file that is written here. It is no Kubernetes object, and
// kustomize's own types would bring their dependencies.
type kustomization struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Resources  []string        `json:"resources"`
	Patches    []kustomizePath `json:"patches,omitempty"`
}

type kustomizePath struct {
	Path string `json:"path"`
}

// Kustomization returns the manifest as the files of a directory for kustomize, kustomization.yaml last.
func (m *Manifest) Kustomization() ([]File, error) {
	var (
		files []File
		k     = kustomization{Kind: "Kustomization", APIVersion: "kustomize.config.k8s.io/v1beta1"}
	)

	for _, d := range m.documents {
		data, err := d.encode()
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", d.file, err)
		}

		files = append(files, File{Name: d.file, Data: data})

		if m.base == "" {
			k.Resources = append(k.Resources, d.file)
		} else {
			k.Patches = append(k.Patches, kustomizePath{d.file})
		}
	}

	d := document{object: &k}

	if m.base != "" {
		k.Resources = []string{m.base}
		d.comments = []comment{{"resources", m.baseHelp}}
	}

	data, err := d.encode()
	if err != nil {
		return nil, fmt.Errorf("writing kustomization.yaml: %w", err)
	}

	data = bytes.Join([][]byte{[]byte(KustomizationMark), data}, []byte("\n"))

	return append(files, File{Name: "kustomization.yaml", Data: data}), nil
}
