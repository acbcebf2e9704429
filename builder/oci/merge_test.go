package oci_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/builder/oci"
)

// Whoever signs in the registry keeps the signature when the layout is pushed once more.
func TestCopyKeepsOthersSignatures(t *testing.T) {
	t.Parallel()

	for kind, start := range registries {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()

			server := start(t)
			to := repository(t, newClient(t, server), server.Host+"/test:v1")
			from := openLayout(t, flatLayout(t))
			root := subjects(t, from)[0].Descriptor.Digest

			attachAll(t, from)

			push := func() {
				t.Helper()

				if _, err := oci.Copy(t.Context(), from, to); err != nil {
					t.Fatal(err)
				}
			}

			push()

			if diff := cmp.Diff(attached(t, from), attached(t, to)); diff != "" {
				t.Errorf("pushed (-layout +registry):\n%s", diff)
			}

			if err := to.Attach(t.Context(), signature(t, root, "by another")); err != nil {
				t.Fatal(err)
			}

			push()

			both := attached(t, to)
			push()

			if diff := cmp.Diff(both, attached(t, to)); diff != "" {
				t.Errorf("pushed again (-before +after):\n%s", diff)
			}

			attachments, err := to.Attachments(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}

			manifest, err := attachments[0].Image.Manifest()
			if err != nil || len(manifest.Layers) != 2 {
				t.Fatalf("signatures are %+v: %v", manifest, err)
			}
		})
	}
}
