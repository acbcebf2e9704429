package builder_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder"
)

// What can be in an archive beside files, and change what is there once it is unpacked, is a fault: the
// digests would be those of other files.
func TestContentIsWhatUnpackingLeaves(t *testing.T) {
	t.Parallel()

	dir := pluginDir(t)

	whole, err := os.ReadFile(tarOf(t, dir))
	if err != nil {
		t.Fatal(err)
	}

	plugin := "opt/cni/bin/" + few[0]

	for name, test := range map[string]struct {
		added tar.Header
		want  string
	}{
		"nothing":              {tar.Header{Typeflag: tar.TypeDir, Name: "opt/"}, ""},
		"symbolic link":        {tar.Header{Typeflag: tar.TypeSymlink, Name: plugin, Linkname: "/bin/sh"}, plugin + " in it is neither a file nor a directory"},
		"hard link":            {tar.Header{Typeflag: tar.TypeLink, Name: "./" + plugin, Linkname: "opt/cni/bin/" + few[1]}, plugin + " in it is neither"},
		"device":               {tar.Header{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}, "null in it is neither"},
		"whiteout":             {tar.Header{Typeflag: tar.TypeReg, Name: "./opt/cni/bin/.wh." + few[0]}, `"./opt/cni/bin/.wh.` + few[0] + `" in it is not the path of a file`},
		"opaque directory":     {tar.Header{Typeflag: tar.TypeReg, Name: "opt/.wh..wh..opq"}, "is not the path of a file"},
		"absolute":             {tar.Header{Typeflag: tar.TypeReg, Name: "/" + plugin}, "is not the path of a file"},
		"from above":           {tar.Header{Typeflag: tar.TypeReg, Name: "../" + plugin}, "is not the path of a file"},
		"twice":                {tar.Header{Typeflag: tar.TypeReg, Name: "x/../" + plugin}, plugin + " is in it twice"},
		"directory for a file": {tar.Header{Typeflag: tar.TypeDir, Name: plugin + "/"}, plugin + " is in it twice"},
		"below a file":         {tar.Header{Typeflag: tar.TypeReg, Name: plugin + "/x/y"}, plugin + " in it is a file, and there is " + plugin + "/x/y"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			file := filepath.Join(t.TempDir(), "plugins.tar")
			if err := os.WriteFile(file, withEntry(t, whole, test.added), 0o644); err != nil {
				t.Fatal(err)
			}

			content, err := builder.FileContent(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}

			if !strings.Contains(content.Fault, test.want) || test.want == "" && content.Fault != "" {
				t.Errorf("fault is %q, want %q", content.Fault, test.want)
			}
		})
	}
}

// withEntry returns a tar with one more entry.
func withEntry(t *testing.T, whole []byte, added tar.Header) []byte {
	t.Helper()

	var out bytes.Buffer

	from, to := tar.NewReader(bytes.NewReader(whole)), tar.NewWriter(&out)

	for {
		h, err := from.Next()
		if errors.Is(err, io.EOF) {
			break
		}

		if err != nil {
			t.Fatal(err)
		}

		if err := to.WriteHeader(h); err != nil {
			t.Fatal(err)
		}

		if _, err := io.Copy(to, from); err != nil {
			t.Fatal(err)
		}
	}

	if err := errors.Join(to.WriteHeader(&added), to.Close()); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}
