package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/doctor"
	"github.com/cnibake/cnibake/cmd/install-cni-plugins/internal/testplugins"
)

// patient is a node's tree and what the doctor is told of it.
type patient struct {
	t                  *testing.T
	root, source, nads string
	config             string // of the one attachment
	extra              []string
	more               []any // objects beside the attachment
	bin, conf          string
	// plain gives the configuration as it is, not as an object.
	plain bool
}

// newPatient makes a node on which nothing is wrong: two plugins of ours, Multus and its configuration.
func newPatient(t *testing.T, source string) *patient {
	t.Helper()

	p := &patient{t: t, root: filepath.Join(t.TempDir(), "node"), source: source}
	p.nads = filepath.Join(filepath.Dir(p.root), "nads.json")
	p.bin, p.conf = p.at("opt/cni/bin"), p.at("etc/cni/net.d")
	p.config = `{"cniVersion": "0.3.1", "type": "bridge", "bridge": "br0", "ipam": {"type": "static"}}`

	for _, dir := range []string{p.bin, p.conf, p.at("usr/bin"), p.at("run/cni"), p.at("lib/modules")} {
		must(t, os.MkdirAll(dir, 0o755))
	}

	p.stage("bridge", "bridge")
	p.stage("static", "static")
	p.stage("static", "multus-shim") // any program that answers as a plugin
	write(t, filepath.Join(p.conf, "00-multus.conf"), `{"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus-shim"}`)

	return p
}

func (p *patient) at(path string) string { return filepath.Join(p.root, path) }

func (p *patient) inBin(name string) string { return filepath.Join(p.bin, name) }

func (p *patient) stage(from, to string) {
	p.t.Helper()
	testplugins.Copy(p.t, filepath.Join(p.source, from), p.inBin(to))
}

// write makes a file and its directory.
func (p *patient) write(path, content string) {
	p.t.Helper()
	must(p.t, os.MkdirAll(filepath.Dir(p.at(path)), 0o755))
	write(p.t, p.at(path), content)
}

func (p *patient) remove(name string) {
	p.t.Helper()
	must(p.t, os.Remove(p.inBin(name)))
}

func (p *patient) link(target, name string) {
	p.t.Helper()
	must(p.t, os.RemoveAll(p.inBin(name)))
	must(p.t, os.Symlink(target, p.inBin(name)))
}

// args are the command line of the doctor.
func (p *patient) args(more ...string) []string {
	p.t.Helper()

	nad := map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": map[string]string{"namespace": "default", "name": "lan"}, "spec": map[string]string{"config": p.config},
	}

	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": append([]any{nad}, p.more...)})
	must(p.t, err)

	if p.plain {
		data = []byte(p.config)
	}

	write(p.t, p.nads, string(data))

	return append(append([]string{"doctor", "--root", p.root, "--source", p.source, "--nad", p.nads, "--strict"}, p.extra...), more...)
}

// examine runs the program as it is shipped.
func (p *patient) examine() (*doctor.Diagnosis, int) {
	p.t.Helper()

	cmd := exec.Command(binary(p.t), p.args("-o", "json")...)
	out, err := cmd.Output()

	var d doctor.Diagnosis
	if jsonErr := json.Unmarshal(out, &d); jsonErr != nil {
		p.t.Fatalf("%v (%v): %s", jsonErr, err, out)
	}

	return &d, cmd.ProcessState.ExitCode()
}

// follow executes the commands of the advice, as a person would in a shell.
func (p *patient) follow(d *doctor.Diagnosis) {
	p.t.Helper()

	text, _ := exec.Command(binary(p.t), p.args()...).Output()

	for _, s := range d.Advice {
		for _, c := range s.Commands {
			wantText(p.t, "text form", string(text), "\n       "+c+"\n")

			cmd := exec.Command("sh", "-c", c)
			cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary(p.t))+":"+os.Getenv("PATH"))

			if out, err := cmd.CombinedOutput(); err != nil {
				p.t.Errorf("%s: %v: %s", c, err, out)
			}
		}
	}
}

// kernel makes the node's tree show a kernel with these modules loaded.
func (p *patient) kernel(loaded ...string) {
	p.write("proc/version", "Linux")
	p.write("proc/modules", strings.Join(loaded, " 16384 0 - Live 0x0\n")+" 16384 0 - Live 0x0\n")
}

// modulesOf says which modules that kernel could load.
func (p *patient) modulesOf(list string) {
	var name unix.Utsname

	must(p.t, unix.Uname(&name))

	dir := "lib/modules/" + unix.ByteSliceToString(name.Release[:])
	p.write(dir+"/modules.dep", list+"\n")
	p.write(dir+"/modules.builtin", "")
}

var wrongProgram struct {
	sync.Once
	path string
	err  error
}

// wrongProgram is a static program that is no plugin.
func (p *patient) wrongProgram() string {
	wrongProgram.Do(func() {
		_ = binary(p.t) // its directory is removed at the end
		wrongProgram.path = filepath.Join(buildOnce.dir, "wrong")
		source := wrongProgram.path + ".go"

		if wrongProgram.err = os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); wrongProgram.err != nil {
			return
		}

		cmd := exec.Command("go", "build", "-o", wrongProgram.path, source)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		wrongProgram.err = cmd.Run()
	})
	must(p.t, wrongProgram.err)

	return wrongProgram.path
}

func verdictsOf(d *doctor.Diagnosis) []doctor.Verdict {
	all := slices.Clone(d.Node)

	for _, a := range d.Attachments {
		all = append(all, a.Findings...)

		for _, p := range a.Plugins {
			all = append(all, p.Findings...)
		}
	}

	var verdicts []doctor.Verdict
	for _, f := range all {
		verdicts = append(verdicts, f.Verdict)
	}

	slices.Sort(verdicts)

	return slices.Compact(verdicts)
}

// ailment breaks a node, and does by hand what the advice asks for beside its commands.
type ailment struct {
	verdict doctor.Verdict
	name    string
	break_  func(p *patient)
	// do is what a person does who reads the advice; says is a part of it that asks for that.
	do   func(p *patient)
	says string
}

func TestDoctorCuresBrokenNodes(t *testing.T) {
	t.Parallel()

	source := testplugins.Payload(t, testplugins.Stripped, "bridge", "static", "macvlan", "bandwidth", "vrf")
	cured := map[doctor.Verdict]bool{}

	for _, a := range ailments {
		cured[a.verdict] = true

		t.Run(strings.TrimSuffix(string(a.verdict)+"/"+a.name, "/"), func(t *testing.T) {
			t.Parallel()

			p := newPatient(t, source)
			if d, code := p.examine(); code != 0 || len(d.Advice) > 0 {
				t.Fatalf("the sound node is sick: %+v", d)
			}

			a.break_(p)

			d, code := p.examine()
			wantEqual(t, "exit code", code, 1)
			wantEqual(t, "verdicts", verdictsOf(d), []doctor.Verdict{a.verdict})

			var advice strings.Builder
			for _, s := range d.Advice {
				fmt.Fprintln(&advice, s.Do)
			}

			wantText(t, "advice", advice.String(), a.says)

			if a.do != nil {
				a.do(p)
			}

			p.follow(d)

			if d, code := p.examine(); code != 0 || len(d.Advice) > 0 {
				t.Errorf("the advice\n%+v\ndoes not cure, exit code %d: %+v", advice.String(), code, d)
			}
		})
	}

	for _, r := range doctor.Rules() {
		if !cured[r.Verdict] {
			t.Errorf("no broken node for %s", r.Verdict)
		}
	}
}
