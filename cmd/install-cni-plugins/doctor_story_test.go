package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/builder/payload"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/doctor"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
	"github.com/cnibake/cnibake/profiles/distro"
)

// On a node of k3s the seven names and the program that they share stay as they are, ours arrive
// beside them, and all of them resolve in Multus's container where the parent directory is mounted.
func TestDoctorOnK3s(t *testing.T) {
	t.Parallel()

	k3s, err := distro.Lookup("k3s")
	must(t, err)

	p := newPatient(t, testplugins.Payload(t, testplugins.Stripped, "bridge", "static", "macvlan"))
	p.bin = p.at(k3s.BinDir)
	data := filepath.Dir(k3s.BinDir)
	shared := p.at(data + "/0123abcd/bin/cni")

	must(t, os.RemoveAll(p.at("opt")))
	must(t, os.MkdirAll(filepath.Dir(shared), 0o755))
	must(t, os.MkdirAll(p.bin, 0o755))
	testplugins.Copy(t, filepath.Join(p.source, "static"), shared)

	for _, name := range append(k3s.PlatformOwned, "multus-shim") {
		p.link("../0123abcd/bin/cni", name)
	}

	p.write(k3s.ConfDir+"/00-multus.conf", `{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus-shim"}`)
	p.write("daemon-config.json", `{"binDir": "`+k3s.BinDir+`"}`)
	p.config = `{"cniVersion": "0.3.1", "name": "lan", "plugins": [{"type": "macvlan", "master": "eth0", "ipam": {"type": "host-local"}}, {"type": "bridge"}]}`
	p.extra = []string{"--distro", "k3s", "--multus-config", p.at("daemon-config.json")}
	p.more = []any{multusDaemonSet(nil, data+":"+data)}

	before, _, err := payload.DigestFile(shared)
	must(t, err)

	d, code := p.examine()
	wantEqual(t, "exit code", code, 1)
	wantEqual(t, "verdicts", verdictsOf(d), []doctor.Verdict{doctor.Missing})
	p.follow(d)

	for _, name := range k3s.PlatformOwned {
		target, err := os.Readlink(p.inBin(name))
		if err != nil || target != "../0123abcd/bin/cni" {
			t.Errorf("%s is now %q (%v)", name, target, err)
		}
	}

	after, _, err := payload.DigestFile(shared)
	must(t, err)
	wantEqual(t, "the shared program", after, before)

	if d, code := p.examine(); code != 0 {
		t.Errorf("exit code %d: %+v", code, d)
	}

	// With the directory of the links alone, they lead out of what is mounted.
	p.more = []any{multusDaemonSet(nil, k3s.BinDir+":"+k3s.BinDir)}
	d, _ = p.examine()
	wantEqual(t, "verdicts", verdictsOf(d), []doctor.Verdict{doctor.EscapingSymlink})
	wantText(t, "advice", d.Advice[0].Do, "Mount "+data+" of the node into Multus's container at the same path")

	// The same seen from the container's root itself.
	inside := filepath.Join(t.TempDir(), "multus")
	must(t, os.MkdirAll(inside+k3s.BinDir, 0o755))
	must(t, os.CopyFS(inside+k3s.BinDir, os.DirFS(p.bin)))

	p.more = nil
	p.extra = append(p.extra, "--multus-root", inside)
	d, _ = p.examine()
	wantEqual(t, "verdicts", verdictsOf(d), []doctor.Verdict{doctor.EscapingSymlink})

	must(t, os.MkdirAll(inside+data+"/0123abcd/bin", 0o755))
	testplugins.Copy(t, shared, inside+data+"/0123abcd/bin/cni")

	if d, code := p.examine(); code != 0 {
		t.Errorf("exit code %d: %+v", code, d)
	}
}

// What an overlay's upper directory hides is found, and gone after the advice and a new mount.
func TestDoctorFindsShadows(t *testing.T) {
	t.Parallel()
	testplugins.NeedRoot(t)

	p := newPatient(t, testplugins.Payload(t, testplugins.Stripped, "bridge", "static"))
	testplugins.WriteManifest(t, p.bin, testplugins.ManifestOf(t, p.source))

	tmp := t.TempDir()
	upper, work := p.at("var/system/overlays/opt-diff"), filepath.Join(tmp, "work")

	// An overlay's upper directory cannot lie on another overlay.
	testplugins.Need(t, syscall.Mount("tmpfs", tmp, "tmpfs", 0, ""), "mounting tmpfs")
	t.Cleanup(func() { _ = syscall.Unmount(tmp, syscall.MNT_DETACH) })
	must(t, os.MkdirAll(filepath.Dir(upper), 0o755))

	for _, dir := range []string{work, filepath.Join(tmp, "upper/cni/bin")} {
		must(t, os.MkdirAll(dir, 0o755))
	}

	must(t, os.MkdirAll(upper, 0o755))
	testplugins.Need(t, syscall.Mount(filepath.Join(tmp, "upper"), upper, "", syscall.MS_BIND, ""), "binding a directory")
	t.Cleanup(func() { _ = syscall.Unmount(upper, syscall.MNT_DETACH) })

	opt := p.at("opt")
	boot := func() {
		testplugins.Need(t, syscall.Mount("overlay", opt, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s", opt, tmp, work)), "mounting an overlay")
	}

	t.Cleanup(func() { _ = syscall.Unmount(opt, syscall.MNT_DETACH) })

	testplugins.Copy(t, filepath.Join(p.source, "static"), filepath.Join(tmp, "upper/cni/bin/bridge"))
	boot()

	p.extra = []string{"--distro", "talos"}

	d, code := p.examine()
	wantEqual(t, "exit code", code, 1)
	wantEqual(t, "verdicts", verdictsOf(d), []doctor.Verdict{doctor.Shadowed})
	wantText(t, "advice", d.Advice[0].Do, "reboot")
	p.follow(d)

	must(t, syscall.Unmount(opt, 0))
	boot()

	if d, code := p.examine(); code != 0 {
		t.Errorf("exit code %d: %+v", code, d)
	}
}

// A plugin that hangs, floods or crashes does not take the doctor with it.
func TestDoctorSurvivesPlugins(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct{ script, says string }{
		"hangs":   {"sleep 1000 & wait", "no answer within 5s"},
		"floods":  {"yes", "no answer within 5s"},
		"crashes": {"kill -SEGV $$", "segmentation fault"},
		"paints":  {`printf '\033[2J' >&2; exit 1`, `\x1b[2J`},
		"lies":    {`echo '{"supportedVersions": 1}'`, "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			dir := t.TempDir()
			write(t, filepath.Join(dir, "bridge"), "#!/bin/sh\n"+test.script+"\n")
			write(t, filepath.Join(dir, "nad"), `{"name": "lan", "type": "bridge"}`)

			o := invoke(t, nil, "doctor", "--root", "/", "--bin-dir", dir, "--conf-dir", t.TempDir(), "--nad", filepath.Join(dir, "nad"))
			wantEqual(t, "exit code", o.code, 1)
			wantText(t, "stdout", o.stdout, "does-not-run: ", test.says)

			if strings.Contains(o.stdout+o.stderr, "\x1b") {
				t.Error("control characters of a plugin reach the terminal")
			}
		})
	}
}

func TestDoctorUsage(t *testing.T) {
	t.Parallel()

	root := t.TempDir()
	nads := filepath.Join(root, "nads")
	write(t, nads, `{"name": "lan", "type": "bridge"}`)
	write(t, filepath.Join(root, "empty"), "\n")
	must(t, os.MkdirAll(filepath.Join(root, "opt/cni/bin"), 0o755))
	must(t, unix.Mkfifo(nads+".fifo", 0o644))

	for says, args := range map[string][]string{
		"no such file":                         {"--nad", nads + ".none"},
		"it is empty":                          {"--nad", filepath.Join(root, "empty")},
		"is not a directory":                   {"--root", nads},
		`"opt/cni" is not an absolute path`:    {"--bin-dir", "opt/cni"},
		"has an empty item":                    {"--bin-dir", "/a,,/b"},
		"--conf-dir is one directory":          {"--conf-dir", "/a,/b"},
		"unknown distribution":                 {"--distro", "none"},
		"name the root of Multus's container":  {"--multus-root", nads},
		"reading Multus's configuration: open": {"--multus-config", nads + ".none"},
		"fifo is not a regular file":           {"--multus-config", nads + ".fifo"},
		`unexpected argument "x"`:              {"x"},
		"nothing to examine":                   {},
		"neither true":                         {"--strict=perhaps"},
	} {
		o := invoke(t, nil, append([]string{"doctor", "--root", root}, args...)...)
		wantEqual(t, strings.Join(args, " ")+": exit code", o.code, 2)
		wantText(t, strings.Join(args, " "), o.stderr, says)
		wantEqual(t, "stdout", o.stdout, "")

		if strings.Count(o.stderr, "\n") != 1 {
			t.Errorf("%v: more than a line: %s", args, o.stderr)
		}
	}
}

// Flags come from the environment too, paths may be given as they are seen from here, and standard
// input is a file like any other.
func TestDoctorReadsEnvironmentAndInput(t *testing.T) {
	t.Parallel()

	p := newPatient(t, testplugins.Payload(t, testplugins.Stripped, "bridge", "static"))
	p.args()

	cmd := exec.Command(binary(t), "doctor", "--nad", "-")
	cmd.Env = append(os.Environ(), "CNI_INSTALL_ROOT="+p.root, "CNI_INSTALL_BIN_DIR=/none,"+p.bin, "CNI_INSTALL_CONF_DIR="+p.conf, "CNI_INSTALL_SOURCE="+p.source, "CNI_INSTALL_STRICT=yes")

	nads, err := os.ReadFile(p.nads)
	must(t, err)

	cmd.Stdin = bytes.NewReader(nads)

	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	wantEqual(t, "output", string(out), `default/lan
  plugin bridge: /opt/cni/bin/bridge v1.9.1, good
  ipam static: /opt/cni/bin/static v1.9.1, good
00-multus.conf (/etc/cni/net.d/00-multus.conf)
  plugin multus-shim: /opt/cni/bin/multus-shim v1.9.1, good

Nothing is wrong.
`)
}

// In the pod of the DaemonSet there is the bin directory and nothing else of the node: what is not to
// be seen is not judged.
func TestDoctorJudgesOnlyWhatItSees(t *testing.T) {
	t.Parallel()

	p := newPatient(t, testplugins.Payload(t, testplugins.Stripped, "bridge", "static"))

	for _, dir := range []string{"etc", "usr", "run", "lib"} {
		must(t, os.RemoveAll(p.at(dir)))
	}

	// Its loader is on the node, for all one knows.
	testplugins.Copy(t, "/bin/sh", p.inBin("calico"))

	p.plain = true
	p.config = `{"cniVersion": "1.0.0", "name": "lan", "plugins": [` + soundConfig + `, {"type": "calico"}]}`

	if d, code := p.examine(); code != 0 {
		t.Errorf("exit code %d: %+v", code, d)
	}

	p.link("/usr/lib/calico", "calico")
	d, _ := p.examine()
	wantEqual(t, "verdicts", verdictsOf(d), []doctor.Verdict{doctor.DanglingSymlink})
	wantText(t, "finding", d.Attachments[0].Plugins[2].Findings[0].Text, "as far as ")
}
