package talosimage

import "bytes"

// kind of content, by its first bytes.
type kind string

const (
	kindOther    kind = ""
	kindCPIO     kind = "cpio"
	kindGzip     kind = "gzip"
	kindXZ       kind = "xz"
	kindZstd     kind = "zstd"
	kindPE       kind = "PE"
	kindSquashfs kind = "squashfs"
)

// headSize is how many bytes kindOf wants.
const headSize = 8

func kindOf(head []byte) kind {
	for _, k := range []struct {
		kind  kind
		magic string
	}{
		{kindCPIO, "070701"},
		{kindCPIO, "070702"},
		{kindGzip, "\x1f\x8b"},
		{kindXZ, "\xfd7zXZ\x00"},
		{kindZstd, "\x28\xb5\x2f\xfd"},
		{kindPE, "MZ"},
		{kindSquashfs, "hsqs"},
	} {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return k.kind
		}
	}

	return kindOther
}

// skippable reports whether a zstd frame without content starts here.
func skippable(head []byte) bool {
	return len(head) >= 4 && head[0]&0xf0 == 0x50 && head[1] == 0x2a && head[2] == 0x4d && head[3] == 0x18
}
