package oci_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder/oci"
)

// FuzzLayout gives a layout any index.json and any one document. DIGEST and SIZE are the document's,
// so that the index can list it.
func FuzzLayout(f *testing.F) {
	const (
		entry    = `{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":SIZE,"digest":"DIGEST"`
		manifest = `{"schemaVersion":2,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","size":2,"digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"},"layers":[]`
	)

	subject := sha([]byte("subject"))

	for _, seed := range []struct{ index, document, name string }{
		{`{"manifests":[` + entry + `,"platform":{"os":"linux","architecture":"amd64"}}]}`, manifest + `}`, ""},
		{`{"manifests":[` + entry + `}]}`, manifest + `}`, ""},
		{`{"manifests":[` + entry + `}]}`, manifest + `,"subject":{"mediaType":"x","size":2,"digest":"` + subject.String() + `"}}`, ""},
		{`{"manifests":[` + entry + `,"annotations":{"org.opencontainers.image.ref.name":"` + oci.LegacyTag(subject, "sig") + `"}}]}`, manifest + `}`, ""},
		{strings.Replace(`{"manifests":[`+entry+`,"annotations":{"io.containerd.image.name":"v1"}}]}`, "manifest.v1", "index.v1", 1), `{"manifests":[]}`, "v1"},
	} {
		f.Add([]byte(seed.index), []byte(seed.document), seed.name)
	}

	f.Fuzz(func(t *testing.T, index, document []byte, name string) {
		index = bytes.ReplaceAll(index, []byte("DIGEST"), []byte(sha(document).String()))
		index = bytes.ReplaceAll(index, []byte("SIZE"), []byte(strconv.Itoa(len(document))))

		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, "blobs", "sha256"), 0o755); err != nil {
			t.Fatal(err)
		}

		for file, content := range map[string][]byte{
			"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`), "index.json": index, filepath.Join("blobs", "sha256", sha(document).Hex): document,
			filepath.Join("blobs", "sha256", sha([]byte("{}")).Hex): []byte("{}"),
		} {
			if err := os.WriteFile(filepath.Join(dir, file), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}

		images, err := oci.ReadLayout(dir)
		if err == nil && len(images) == 0 {
			t.Error("neither images nor an error")
		}

		l, err := oci.OpenLayout(dir, oci.WithName(name))
		if err != nil {
			return
		}

		all, err := l.Subjects(t.Context())
		if err != nil {
			return
		}

		// What is published has the digest that it is published by.
		raw, err := all[0].Index.RawManifest()
		if err != nil || sha(raw) != all[0].Descriptor.Digest {
			t.Errorf("%s has the digest %s: %v", raw, all[0].Descriptor.Digest, err)
		}

		for _, subject := range all {
			for _, digest := range []v1.Hash{subject.Descriptor.Digest, sha([]byte("subject"))} {
				if _, err := l.Attachments(t.Context(), digest); err != nil {
					return
				}
			}
		}
	})
}
