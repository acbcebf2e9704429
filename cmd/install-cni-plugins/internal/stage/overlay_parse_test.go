package stage

import (
	"fmt"
	"testing"
)

func TestFindOverlay(t *testing.T) {
	t.Parallel()

	const table = `21 1 8:1 / / rw - ext4 /dev/sda1 rw
30 21 0:40 / /opt rw,relatime shared:1 - overlay overlay rw,lowerdir=/opt,upperdir=/var/system/overlays/opt-diff,workdir=/w
31 21 0:41 /cni/bin /host/opt/cni/bin rw - overlay overlay rw,lowerdir=/a\072b:/c\040d,upperdir=/u,workdir=/w
32 21 0:42 / /data rw - overlay overlay rw,lowerdir=/a::/data-only,upperdir=/u
33 21 0:43 / /new rw - overlay overlay rw,lowerdir+=/one,lowerdir+=/two,upperdir=/u
garbage
`

	cases := []struct {
		path, device string
		want         overlay
		ok           bool
	}{
		{"/opt/cni/bin", "0:40", overlay{"cni/bin", "/var/system/overlays/opt-diff", []string{"/opt"}}, true},
		{"/opt/cni/bin", "0:99", overlay{}, false},
		{"/optional", "0:40", overlay{}, false},
		{"/host/opt/cni/bin", "0:41", overlay{"cni/bin", "/u", []string{"/a:b", "/c d"}}, true},
		{"/data/cni", "0:42", overlay{"cni", "/u", nil}, true},
		{"/new", "0:43", overlay{"", "/u", []string{"/one", "/two"}}, true},
		{"/etc", "8:1", overlay{}, false},
	}

	for _, c := range cases {
		got, ok := findOverlay(table, c.path, c.device)
		equal(t, c.path+" "+c.device, ok, c.ok)
		equal(t, c.path+" "+c.device, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", c.want))
	}
}

func FuzzFindOverlay(f *testing.F) {
	f.Add("30 21 0:40 / /opt rw - overlay overlay rw,lowerdir=/opt,upperdir=/u\n", "/opt/cni/bin", "0:40")
	f.Add(`1 1 0:1 \1 \040 a - overlay b lowerdir=\,\:`, "/", "0:1")
	f.Fuzz(func(_ *testing.T, table, path, device string) { findOverlay(table, path, device) })
}
