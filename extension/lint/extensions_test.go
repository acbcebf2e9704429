package lint

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Extensions of other people, made the way theirs are: without SELinux labels, with a range of their own.
func TestOtherExtensions(t *testing.T) {
	t.Parallel()

	const (
		release = "= v1.13.9"
		kernel  = "6.18.44-talos"
	)

	manifest := func(a archive, name, version, compatible string) archive {
		return a.with(t, "manifest.yaml", replaced("name: tool", "name: "+name)).
			with(t, "manifest.yaml", replaced("v1.2.3", version)).
			with(t, "manifest.yaml", replaced(">= v1.13.0", compatible))
	}
	base := archive{good(t, "amd64")[0]}

	modules := manifest(base, "drbd", "9.2.14-v1.13.9", release).
		file(t, "/usr/lib/modules/"+kernel+"/extra/drbd.ko", 0o644, module(t, "amd64", true)).
		file(t, "/usr/lib/modules/"+kernel+"/extra/drbd_transport_tcp.ko", 0o644, module(t, "amd64", true)).
		file(t, "/usr/lib/modules/"+kernel+"/modules.dep", 0o644, "extra/drbd.ko:\n").
		file(t, "/usr/local/share/spdx/drbd.spdx.json", 0o644, sbomOf("drbd")).unlabelled()

	agent := manifest(base, "qemu-guest-agent", "10.2.0", ">= v1.13.0").
		file(t, "/usr/local/etc/containers/qemu-guest-agent.yaml", 0o644, `name: qemu-guest-agent
depends:
  - service: containerd
  - path: /dev/virtio-ports/org.qemu.guest_agent.0
container:
  entrypoint: ./qemu-ga
  args: [--daemonize]
  mounts:
    - {source: /dev, destination: /dev, type: bind, options: [rbind, rshared, rw]}
  security: {rootfsPropagation: shared}
restart: always
`).
		file(t, "/usr/local/lib/containers/qemu-guest-agent/qemu-ga", 0o755, elfFile(t, program{arch: "amd64", interpreter: "/lib/ld-musl-x86_64.so.1"})).
		file(t, "/usr/local/lib/containers/qemu-guest-agent/lib/ld-musl-x86_64.so.1", 0o755, elfFile(t, program{arch: "amd64"})).
		file(t, "/usr/local/share/spdx/qemu-guest-agent.spdx.json", 0o644, sbomOf("qemu-guest-agent")).unlabelled()

	firmware := manifest(base, "bnx2-bnx2x", "20260110", ">= v1.10.0").
		file(t, "/usr/lib/firmware/bnx2/bnx2-mips-06-6.2.3.fw", 0o644, "\x7fELF is how some firmware begins").
		file(t, "/usr/lib/firmware/bnx2/bnx2-rv2p-06-6.0.15.fw", 0o644, "firmware").
		link(t, "/usr/lib/firmware/bnx2/a-name.fw", "bnx2-rv2p-06-6.0.15.fw").
		file(t, "/usr/local/share/spdx/bnx2.spdx.json", 0o644, sbomOf("bnx2")).unlabelled()

	for _, tt := range []struct {
		name     string
		archive  archive
		rules    []string
		accepted []string
	}{
		{"kernel modules", modules, []string{"modules-dep", "selinux-missing"}, []string{"imager 1.13", "factory 1.13"}},
		{"service", agent, []string{"selinux-missing"}, []string{"imager 1.13", "imager 1.14", "catalogue v1.13.0", "factory 1.13", "factory 1.14"}},
		{"firmware", firmware, []string{"selinux-missing"}, []string{
			"imager 1.10", "imager 1.11", "imager 1.12", "imager 1.13", "imager 1.14", "catalogue v1.13.0",
			"factory 1.10", "factory 1.11", "factory 1.12", "factory 1.13", "factory 1.14",
		}},
		// Modules of another release in a range that admits more than one, and an agent whose file system was forgotten.
		{"modules for one of many", modules.with(t, "manifest.yaml", replaced(release, ">= v1.13.0")), []string{"modules-dep", "modules-range", "selinux-missing"}, []string{"imager 1.13", "imager 1.14", "catalogue v1.13.0", "factory 1.13", "factory 1.14"}},
		{"service without program", agent.without(t, "rootfs/usr/local/lib/containers/qemu-guest-agent/qemu-ga"), []string{"selinux-missing", "service-entrypoint-missing"}, []string{"imager 1.13", "imager 1.14", "catalogue v1.13.0", "factory 1.13", "factory 1.14"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()

			report := lintFile(t, tt.archive.tar(t), Options{})

			if diff := cmp.Diff(tt.rules, rulesOf(report)); diff != "" {
				t.Errorf("%s\n%+v", diff, report.Findings)
			}

			if !report.Good() {
				t.Errorf("%+v", report.Findings)
			}

			if diff := cmp.Diff(tt.accepted, accepted(report)); diff != "" {
				t.Error(diff)
			}
		})
	}

	// The kernel of a release decides, once it is named.
	report := lintFile(t, modules.with(t, "manifest.yaml", replaced(release, ">= v1.13.0")).tar(t), Options{Talos: "v1.13.8"})
	if diff := cmp.Diff([]string{"modules-dep", "modules-kernel", "selinux-missing"}, rulesOf(report)); diff != "" {
		t.Error(diff)
	}
}
