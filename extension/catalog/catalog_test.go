package catalog_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cnibake/cnibake/extension/catalog"
)

const (
	gvisor = "ghcr.io/siderolabs/gvisor:20260101.0@sha256:5ab365f2b98ab885b1d9a6ebb2e2b06d0a7887d2c173a2b7d3f9e0e4f2f4f1cb"
	zfs    = "ghcr.io/siderolabs/zfs:2.4.0-v1.13.9@sha256:6f9e2d0c8a9d18b9a54c3d0f7c6b3a2f4e5d6c7b8a9f0e1d2c3b4a5f6e7d8c9b"
	ours   = "ghcr.io/cnibake/cni-plugins:v1.9.1-1@sha256:0000000000000000000000000000000000000000000000000000000000000001"
)

// officialText is in the form of the official catalogue: keys quoted, a block for each entry.
const officialText = `"` + gvisor + `":
  author: Sidero Labs
  description: |
    gVisor is a container runtime.
    It has its own kernel.
"` + zfs + `":
  author: Sidero Labs
  description: ZFS kernel modules
`

func TestAdd(t *testing.T) {
	t.Parallel()

	entry := catalog.Entry{Line: ours, Author: "cnibake", Description: "plugins: bridge, vlan # and more"}

	for name, test := range map[string]struct {
		digests, descriptions string
		// want is the number of entries before; wantErr is in the message.
		want    int
		wantErr string
	}{
		"empty":                    {"", "", 0, ""},
		"official":                 {gvisor + "\n" + zfs + "\n", officialText, 2, ""},
		"no end of line":           {gvisor, strings.TrimSuffix(officialText, "\n"), 1, ""},
		"no descriptions":          {gvisor + "\n", "", 1, ""},
		"a comment is no entry":    {"# none\n" + gvisor + "\n", officialText, 1, ""},
		"descriptions in braces":   {gvisor + "\n", `{"` + gvisor + `": {author: a, description: b}}` + "\n", 1, "not in a form"},
		"descriptions that ended":  {gvisor + "\n", officialText + "...\n", 1, "not in a form"},
		"another of the same name": {strings.Replace(ours, "v1.9.1-1@", "v1.9.0-1@", 1) + "\n", "", 1, "already lists ghcr.io/cnibake/cni-plugins:v1.9.0-1@"},
		"same name, other registry": {
			strings.Replace(ours, "ghcr.io/", "registry.example/", 1) + "\n", "", 1, "already lists registry.example/",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			c := catalog.New([]byte(test.digests), []byte(test.descriptions))

			before, err := c.Entries()
			if err != nil || len(before) != test.want {
				t.Fatalf("%d entries before: %v", len(before), err)
			}

			err = c.Add(entry)

			digests, descriptions := c.Files()
			if !strings.HasPrefix(string(digests), test.digests) || !strings.HasPrefix(string(descriptions), test.descriptions) {
				t.Errorf("what was there is not as it was:\n%s\n%s", digests, descriptions)
			}

			if test.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("want %q: %v", test.wantErr, err)
				}

				return
			}

			if err != nil {
				t.Fatal(err)
			}

			after, err := c.Entries()
			if err != nil {
				t.Fatal(err)
			}

			if diff := cmp.Diff(append(before, entry), after); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}

			// Once more changes nothing.
			if err := c.Add(entry); err != nil {
				t.Fatal(err)
			}

			if again, _ := c.Files(); string(again) != string(digests) {
				t.Errorf("adding twice gives\n%s", again)
			}
		})
	}
}

func TestEntriesRefused(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct{ digests, descriptions string }{
		"no digest":       {"ghcr.io/siderolabs/gvisor:1@sha256:12\n", ""},
		"no tag":          {"ghcr.io/siderolabs/gvisor@sha256:" + strings.Repeat("0", 64) + "\n", ""},
		"no repository":   {":1@sha256:" + strings.Repeat("0", 64) + "\n", ""},
		"not YAML":        {gvisor + "\n", "\t"},
		"described twice": {gvisor + "\n", officialText + officialText},
		"a list":          {gvisor + "\n", "- a\n"},
	} {
		c := catalog.New([]byte(test.digests), []byte(test.descriptions))
		if entries, err := c.Entries(); err == nil {
			t.Errorf("%s: %v", name, entries)
		}
	}
}

func FuzzEntries(f *testing.F) {
	f.Add([]byte(gvisor+"\n"), []byte(officialText))
	f.Add([]byte("@"), []byte("a: &a [*a]"))

	f.Fuzz(func(t *testing.T, digests, descriptions []byte) {
		c := catalog.New(digests, descriptions)
		if c.Add(catalog.Entry{Line: ours, Author: "a", Description: "b"}) != nil {
			return
		}

		entries, err := c.Entries()
		if err != nil || len(entries) == 0 || entries[len(entries)-1].Line != ours {
			t.Errorf("what was added is not there: %v %v", entries, err)
		}
	})
}
