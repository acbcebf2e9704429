package oci_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/cnibake/cnibake/builder/oci"
)

// Every blob of a layout with attachments is read through its digest.
func TestAlteredStore(t *testing.T) {
	t.Parallel()

	dir := flatLayout(t)
	attachAll(t, openLayout(t, dir))

	index, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}

	blobs, err := filepath.Glob(filepath.Join(dir, "blobs", "sha256", "*"))
	if err != nil || len(blobs) < 20 {
		t.Fatalf("blobs are %q: %v", blobs, err)
	}

	for _, blob := range blobs {
		data, err := os.ReadFile(blob)
		if err != nil {
			t.Fatal(err)
		}

		for what, altered := range map[string][]byte{"flipped": flipped(data), "longer": append(data[:len(data):len(data)], ' '), "shorter": data[:len(data)-1]} {
			if err := os.WriteFile(blob, altered, 0o644); err != nil {
				t.Fatal(err)
			}

			if err := readAll(t.Context(), dir); err == nil || !strings.Contains(err.Error(), filepath.Base(blob)) {
				t.Errorf("%s %s: error is %v", what, filepath.Base(blob), err)
			}
		}

		if err := os.WriteFile(blob, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}

	if err := readAll(t.Context(), dir); err != nil {
		t.Errorf("restored, but: %v", err)
	}

	// What index.json says is as foreign as the rest.
	var manifest map[string]any
	if err := json.Unmarshal(index, &manifest); err != nil {
		t.Fatal(err)
	}

	manifest["manifests"] = make([]any, 1001)

	many, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}

	for want, bad := range map[string]string{
		"are more than an index can have": strings.Repeat(" ", 4<<20) + string(index),
		"entries are more than 1000":      strings.ReplaceAll(string(many), "null", `{"mediaType":"application/vnd.oci.image.manifest.v1+json","size":2,"digest":"sha256:`+strings.Repeat("0", 64)+`"}`),
		"only sha256 digests":             strings.Replace(string(index), `"sha256:`, `"sha512:`+strings.Repeat("0", 64), 1),
		"cannot have -1 bytes":            strings.Replace(string(index), `"size": `, `"size": -1, "x": `, 1),
		"cannot have 99999999":            strings.Replace(string(index), `"size": `, `"size": 99999999`, 1),
		"non-hex character":               strings.Replace(string(index), `"sha256:`, `"sha256:../../`, 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}

		if err := readAll(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
}

func flipped(data []byte) []byte {
	altered := append([]byte(nil), data...)
	altered[len(altered)/2] ^= 1

	return altered
}

// readAll reads everything that a layout publishes.
func readAll(ctx context.Context, dir string) error {
	l, err := oci.OpenLayout(dir)
	if err != nil {
		return err
	}

	all, err := l.Subjects(ctx)
	if err != nil {
		return err
	}

	for _, subject := range all {
		attachments, err := l.Attachments(ctx, subject.Descriptor.Digest)
		if err != nil {
			return err
		}

		if subject.Image != nil {
			attachments = append(attachments, oci.Attachment{Image: subject.Image})
		}

		for _, attachment := range attachments {
			if err := readImage(attachment.Image); err != nil {
				return err
			}
		}
	}

	return nil
}

func readImage(image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}

	for _, layer := range layers {
		content, err := layer.Compressed()
		if err != nil {
			return err
		}

		_, err = io.Copy(io.Discard, content)
		if err = errors.Join(err, content.Close()); err != nil {
			return err
		}
	}

	_, err = image.RawConfigFile()

	return err
}
