package boot

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/siderolabs/talos/pkg/imager/profile"

	"github.com/cnibake/cnibake/hack/talos/artifact"
	"github.com/cnibake/cnibake/hack/talos/boot/plan"
	"github.com/cnibake/cnibake/hack/talos/imager"
	"github.com/cnibake/cnibake/hack/talos/needs"
)

func TestMain(m *testing.M) { os.Exit(artifact.Run(m)) }

// deadline is for one boot; emulated, with all checks, it takes about a minute.
const deadline = 8 * time.Minute

const pluginLabel = "system_u:object_r:cni_plugin_t:s0"

var shapes = []struct {
	profile, pluginDir string
	// labels are those of sample paths of each kind; the policy is asked about every plugin besides.
	labels map[string]string
}{
	{artifact.Talos, plan.OptDir, map[string]string{
		"/": "system_u:object_r:rootfs_t:s0", "/opt": "system_u:object_r:opt_t:s0", "/opt/cni": pluginLabel, "/opt/cni/bin": pluginLabel,
		"/usr": "system_u:object_r:usr_t:s0", "/usr/local/share": "system_u:object_r:usr_t:s0",
	}},
	{artifact.TalosReadonly, plan.ReadonlyDir, map[string]string{
		"/": "system_u:object_r:rootfs_t:s0", "/etc": "system_u:object_r:etc_t:s0",
		"/etc/cri/conf.d/20-cni-plugins.part": "system_u:object_r:etc_t:s0",
		"/usr/local/lib":                      "system_u:object_r:usr_t:s0", "/usr/local/lib/cni": pluginLabel,
	}},
}

// TestBoot boots each shape twice on one disk: from an image as built here, with every check and
// copies of other writers left in /opt at its end, and from an image with other plugins.
func TestBoot(t *testing.T) {
	needs.Root(t)
	needs.Tools(t, "qemu-system-x86_64", "mksquashfs", "cpio", "zstd", "mkfs.ext4", "iptables", "nft")

	if runtime.GOARCH != artifact.AMD64 {
		needs.Missing(t, "an amd64 machine, whose packet filter programs the booted one borrows")
	}

	kernel, err := FindKernel()
	if err != nil {
		needs.Missing(t, "a kernel to boot (hack/talos-packages fetches one): "+err.Error())
	}

	programs := Programs{
		TalosInit: artifact.Program(t, "..", "github.com/siderolabs/talos/internal/app/init"),
		Early:     artifact.Program(t, "..", "./boot/early"),
		Guest:     artifact.Program(t, "..", "./boot/guest"),
		Installer: artifact.Installer(t),
	}

	first := artifact.Build(t, "--arch", artifact.AMD64, artifact.Talos, artifact.TalosReadonly)
	second := anotherBuild(t, first)

	for _, shape := range shapes {
		t.Run(shape.profile, func(t *testing.T) {
			disk := filepath.Join(t.TempDir(), "disk.img")
			if err := newDisk(t.Context(), disk); err != nil {
				t.Fatal(err)
			}

			for _, image := range []struct {
				name string
				dist *artifact.Dist
			}{{"first", first}, {"next image", second}} {
				t.Run(image.name, func(t *testing.T) {
					p := plan.Plan{PluginDir: shape.pluginDir, Labels: shape.labels, Second: image.dist == second}

					for _, plugin := range image.dist.Plugins(t, shape.profile, artifact.AMD64) {
						p.Plugins = append(p.Plugins, plan.Plugin{Name: plugin.Name, Version: plugin.Version, Digest: plugin.Digest})
					}

					bootExtension(t, kernel, programs, image.dist.Tar(shape.profile, artifact.AMD64), disk, p)
				})
			}
		})
	}
}

// bootExtension lets the imager put an extension into an initramfs and boots that.
func bootExtension(t *testing.T, kernel *Kernel, programs Programs, tar, disk string, p plan.Plan) {
	t.Helper()

	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()

	initramfs, work, extensions := filepath.Join(t.TempDir(), "initramfs.zst"), t.TempDir(), t.TempDir()

	if err := writeInitramfs(ctx, initramfs, work, kernel, programs, p); err != nil {
		t.Fatal(err)
	}

	unpacked, err := imager.Unpack(ctx, profile.ContainerAsset{TarballPath: tar}, artifact.AMD64, extensions)
	if err != nil {
		t.Fatal(err)
	}

	if err := imager.Rebuild(ctx, extensions, artifact.AMD64, initramfs, unpacked); err != nil {
		t.Fatal(err)
	}

	start := time.Now()
	results, console, err := bootMachine(ctx, kernel, initramfs, disk, work)
	t.Logf("%.1f s in the machine\n%s", time.Since(start).Seconds(), bytes.TrimSpace(console))

	if err != nil {
		t.Error(err)
	}

	for _, result := range results {
		t.Run(result.Group+"/"+result.Name, func(t *testing.T) {
			t.Logf("%d ms %s", result.Millis, result.Detail)

			if result.Outcome != plan.Pass {
				t.Error(result.Detail)
			}
		})
	}
}

// anotherBuild is an extension whose plugins work like the first one's and are other bytes, as after
// a change of the toolchain or of the pin.
func anotherBuild(t *testing.T, dist *artifact.Dist) *artifact.Dist {
	t.Helper()

	dir := t.TempDir()

	out, err := exec.CommandContext(t.Context(), "tar", "-C", dir, "--strip-components=4", "-xf", dist.Tar(artifact.Talos, artifact.AMD64),
		"rootfs/opt/cni/bin").CombinedOutput()
	if err != nil {
		t.Fatalf("unpacking plugins: %v: %s", err, out)
	}

	for _, plugin := range dist.Plugins(t, artifact.Talos, artifact.AMD64) {
		file, err := os.OpenFile(filepath.Join(dir, plugin.Name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}

		// What follows the last section of a program is loaded by nobody.
		if _, err := file.WriteString("another build\n"); err != nil {
			t.Fatal(err)
		}

		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}

	other := artifact.Build(t, "--arch", artifact.AMD64, "--source", dir, "--allow-unpinned", artifact.Talos, artifact.TalosReadonly)

	if slices.Equal(other.Plugins(t, artifact.Talos, artifact.AMD64), dist.Plugins(t, artifact.Talos, artifact.AMD64)) {
		t.Fatal("the other build has the same plugins")
	}

	return other
}
