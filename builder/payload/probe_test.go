package payload_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cnibake/cnibake/builder/buildertest"
	"github.com/cnibake/cnibake/builder/payload"
)

func TestProbeRealPlugins(t *testing.T) {
	t.Parallel()

	set := buildertest.Plugins(t, runtime.GOARCH)

	for _, plugin := range set.Manifest.Plugins {
		versions, err := payload.Probe(t.Context(), set.Files[plugin.File].Path)
		if err != nil {
			t.Errorf("%s: %v", plugin.Name, err)
		}

		if !slices.Contains(versions, "1.0.0") {
			t.Errorf("%s supports %v", plugin.Name, versions)
		}
	}
}

// One program that is all plugins goes by what it is called, also where its file is called otherwise.
func TestProbeAsAnotherName(t *testing.T) {
	t.Parallel()

	set := buildertest.MergedPlugins(t, runtime.GOARCH)

	program := filepath.Join(t.TempDir(), "cni")
	if err := os.Symlink(set.Files[set.Manifest.Plugins[0].File].Path, program); err != nil {
		t.Fatal(err)
	}

	if _, err := payload.ProbeAs(t.Context(), program, "bridge"); err != nil {
		t.Error(err)
	}

	if _, err := payload.Probe(t.Context(), program); err == nil {
		t.Error("a program that is called by no plugin's name has answered")
	}
}

// script writes an executable shell script.
func script(t *testing.T, body string) string {
	t.Helper()

	name := filepath.Join(t.TempDir(), "plugin")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
		t.Fatal(err)
	}

	return name
}

func TestProbeRejects(t *testing.T) {
	t.Parallel()

	tests := map[string]struct{ body, want string }{
		"junk":              {"echo bridge v1", "its answer to CNI_COMMAND=VERSION is not JSON: "},
		"nothing":           {"", "its answer to CNI_COMMAND=VERSION is not JSON: "},
		"other JSON":        {`echo '{"cniVersion": "1.0.0"}'`, "its answer to CNI_COMMAND=VERSION names no supported versions"},
		"wrong type":        {`echo '{"supportedVersions": "1.0.0"}'`, "its answer to CNI_COMMAND=VERSION is not JSON: "},
		"failure":           {"echo >&2 no such device; exit 3", "running it with CNI_COMMAND=VERSION: exit status 3: no such device"},
		"failure, silent":   {"exit 4", "running it with CNI_COMMAND=VERSION: exit status 4"},
		"much output":       {"head -c 10000000 /dev/zero", "its answer to CNI_COMMAND=VERSION is not JSON: "},
		"much on stderr":    {"head -c 10000000 /dev/zero >&2; exit 1", "running it with CNI_COMMAND=VERSION: exit status 1"},
		"answer, then junk": {`echo '{"supportedVersions": ["1.0.0"]} x'`, "its answer to CNI_COMMAND=VERSION is not JSON: "},
	}

	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			_, err := payload.Probe(t.Context(), script(t, test.body))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Fatalf("error is %v, want %s", err, test.want)
			}

			if len(err.Error()) > 100_000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// TestProbeEnvironment: a plugin must not see what the build's environment holds.
func TestProbeEnvironment(t *testing.T) {
	t.Setenv("CNIBAKE_TEST_SECRET", "secret")

	name := script(t, `[ "$CNI_COMMAND" = VERSION ] && [ "$(cat)" = "{}" ] && [ -z "$CNIBAKE_TEST_SECRET$HOME$CNI_PATH" ] && echo '{"supportedVersions": ["1.0.0"]}'`)

	if _, err := payload.Probe(t.Context(), name); err != nil {
		t.Error(err)
	}
}

func TestProbeCannotExecute(t *testing.T) {
	t.Parallel()

	plain := script(t, "")
	if err := os.Chmod(plain, 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := payload.Probe(t.Context(), plain); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("not executable: error is %v", err)
	}

	if _, err := payload.Probe(t.Context(), plain+"-absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: error is %v", err)
	}
}

// TestProbeHangs: when the context ends the plugin is killed, with whatever it started.
func TestProbeHangs(t *testing.T) {
	t.Parallel()

	pidFile := filepath.Join(t.TempDir(), "pid")
	name := script(t, "sleep 1000 &\necho $! > "+pidFile+".new\nmv "+pidFile+".new "+pidFile+"\nwait\n")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	result := make(chan error, 1)

	go func() {
		_, err := payload.Probe(ctx, name)
		result <- err
	}()

	var pid string

	for pid == "" {
		data, err := os.ReadFile(pidFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}

		pid = strings.TrimSpace(string(data))

		select {
		case err := <-result:
			t.Fatalf("the probe ended by itself: %v", err)
		default:
			time.Sleep(time.Millisecond)
		}
	}

	cancel()

	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}

	// A killed process may stay as a zombie for a moment. If it lives on, the test never ends.
	for alive(pid) {
		time.Sleep(time.Millisecond)
	}
}

func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")

	return err == nil && !strings.Contains(string(stat), ") Z ")
}
