package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/cnibake/cnibake/profiles"
)

const modulePath = "github.com/containernetworking/plugins"

type buildFigures struct {
	// upstream builds its 18 plugins for both architectures, and packs nothing.
	upstream usage
	// cold builds the default profiles for both architectures; downloads stay.
	cold, field, unchanged usage
	// pack packs compiled plugins of one architecture; pipeline does so with tar, gzip and crane.
	pack, pipeline usage
}

// defaults are the profiles that `cnibake build` builds, with the packaging that each is best carried in.
var defaults = map[string]string{"talos": "multicall", "talos-readonly": "multicall", "generic-linux": "separate", "init-container": "multicall"}

func (w *workshop) measureBuilds() error {
	if err := w.buildUpstream(); err != nil {
		return err
	}

	var files []string

	for name, packaging := range defaults {
		text, err := w.output(w.cnibake, "profile", "show", name)
		if err != nil {
			return fmt.Errorf("showing profile %s: %w", name, err)
		}

		text = regexp.MustCompile(`(?m)^packaging: .*$`).ReplaceAllString(text, "packaging: "+packaging)
		files = append(files, w.path("profiles", name+".yaml"))

		if err := write(files[len(files)-1], text+"\n"); err != nil {
			return err
		}
	}

	slices.Sort(files)

	build := func(what string) (usage, error) {
		progress("building all: " + what)

		return w.measure("", w.caches(), w.cnibake, append([]string{"build", "-q", "--out", w.path("dist")}, files...)...)
	}

	var err error
	if w.build.cold, err = build("cold"); err != nil {
		return err
	}

	err = best(&w.build.unchanged, func(int) (usage, error) { return build("nothing changed") })
	if err != nil {
		return err
	}

	err = best(&w.build.field, func(round int) (usage, error) {
		if err := changeField(w.path("profiles", "talos.yaml"), fmt.Sprintf("somebody else %d", round)); err != nil {
			return usage{}, err
		}

		return build("one field changed")
	})
	if err != nil {
		return err
	}

	return w.measurePacking()
}

// best measures three times and keeps the fastest: one figure in a busy moment would say nothing.
func best(fastest *usage, measure func(round int) (usage, error)) error {
	const rounds = 3

	for round := range rounds {
		taken, err := measure(round)
		if err != nil {
			return err
		}

		if round == 0 || taken.seconds < fastest.seconds {
			*fastest = taken
		}
	}

	return nil
}

func changeField(profile, author string) error {
	data, err := os.ReadFile(profile)
	if err != nil {
		return err
	}

	return write(profile, regexp.MustCompile(`(?m)^  author: .*$`).ReplaceAllString(string(data), "  author: "+author))
}

// caches are caches of the run's own, so that cold is cold.
func (w *workshop) caches() []string {
	return []string{"GOCACHE=" + w.path("gocache"), "XDG_CACHE_HOME=" + w.path("cache")}
}

// buildUpstream builds upstream's 18 plugins for both architectures as upstream does: not stripped, in
// its own module.
func (w *workshop) buildUpstream() error {
	progress("building upstream's plugins")

	answer, err := w.output("go", "mod", "download", "-json", modulePath+"@"+profiles.DefaultPin)
	if err != nil {
		return fmt.Errorf("downloading upstream: %w", err)
	}

	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(answer), &module); err != nil {
		return err
	}

	source := w.path("upstream")
	if err := os.CopyFS(source, os.DirFS(module.Dir)); err != nil {
		return err
	}

	script := fmt.Sprintf(`
		chmod -R u+w .
		packages=$(ls -d ./plugins/main/*/ ./plugins/meta/*/ ./plugins/ipam/*/ | grep -v /windows/)
		for arch in amd64 arm64; do
			mkdir -p ../upstream-$arch
			GOARCH=$arch go build -mod=mod -o ../upstream-$arch/ -ldflags "-X %s/pkg/utils/buildversion.BuildVersion=%s" $packages
		done`, modulePath, profiles.DefaultPin)

	w.build.upstream, err = w.measure(source, []string{"GOCACHE=" + w.path("gocache-upstream"), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false"}, "sh", "-ec", script)

	return err
}

// measurePacking packs what is compiled already, our way and with ordinary tools.
func (w *workshop) measurePacking() error {
	progress("packing")

	if err := os.RemoveAll(w.path("cache", "cnibake", "layers")); err != nil {
		return err
	}

	var err error
	if w.build.pack, err = w.measure("", w.caches(), w.cnibake, "build", "-q", "--arch", "amd64", "--packaging", "multicall", "--out", w.path("packed"), "talos"); err != nil {
		return err
	}

	version, err := w.output("go", "list", "-m", "-f", "{{.Version}}", "github.com/google/go-containerregistry")
	if err != nil {
		return fmt.Errorf("looking for crane's version: %w", err)
	}

	if err := w.run("", []string{"GOBIN=" + w.dir}, "go", "install", "github.com/google/go-containerregistry/cmd/crane@"+version); err != nil {
		return err
	}

	w.build.pipeline, err = w.measure(w.dir, nil, "sh", "-ec", `
		mkdir -p rootfs/opt/cni/bin
		cp upstream-amd64/* rootfs/opt/cni/bin/
		cd rootfs/opt/cni/bin && rm -f dhcp dummy loopback tap && cd ../../../..
		tar -C rootfs --sort=name --owner=0 --group=0 --numeric-owner -cf - . | gzip -9 > today.tar.gz
		./crane append -f today.tar.gz --oci-empty-base -t cni-plugins:bench -o today.tar`)

	return err
}

// builds is the table of build times.
func (w *workshop) builds() table {
	b := w.build
	t := table{title: "Building", header: []string{"what", "time (CPU)", "against", "ratio (CPU)", "target"}}

	row := func(what string, taken usage, name string, other usage, target string) {
		t.add(what, taken.String(), name+": "+other.String(), fmt.Sprintf("%s (%s)", ratio(taken.seconds, other.seconds), ratio(taken.cpu, other.cpu)), target)
	}

	row("cold: 4 profiles, 2 architectures, everything compiled and packed", b.cold,
		"upstream's 18 plugins for both, compiled only", b.upstream, verdict(b.cold.seconds, b.upstream.seconds, "no slower"))
	row("one field of the talos profile changed (best of 3)", b.field, "cold", b.cold, verdict(b.field.seconds, 3, "3 s"))
	row("nothing changed (best of 3)", b.unchanged, "cold", b.cold, verdict(b.unchanged.seconds, 1, "1 s"))
	row("talos extension, amd64, from compiled plugins", b.pack, "tar, gzip -9, crane append of unstripped plugins", b.pipeline, "")
	t.add("peak memory of the cold build, largest process", megabytes(b.cold.memory), "upstream's: "+megabytes(b.upstream.memory), ratio(b.cold.memory, b.upstream.memory), "")

	return t
}

func write(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}

	return os.WriteFile(name, []byte(text), 0o644)
}
