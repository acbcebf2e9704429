package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// side is one of the two sets of plugins that are compared.
type side struct {
	name, dir    string
	version, add []float64
}

// measureOnNode runs in namespaces of its own and prints what it measured.
func measureOnNode(ctx context.Context) error {
	if err := privateNode(); err != nil {
		return err
	}

	merged, separate, _ := strings.Cut(os.Getenv(nodeVariable), ":")
	sides := []*side{{name: "merged", dir: merged}, {name: "separate", dir: separate}}

	for round := range rounds {
		// Whoever comes second finds warmer caches.
		order := sides
		if round%2 == 1 {
			order = []*side{sides[1], sides[0]}
		}

		for _, s := range order {
			if err := s.round(ctx); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}

	figures := callFigures{
		Version: pair{median(sides[0].version), median(sides[1].version)},
		Add:     pair{median(sides[0].add), median(sides[1].add)},
	}

	for i, figure := range []struct{ memory, cached *float64 }{
		{&figures.Memory.Merged, &figures.Cached.Merged}, {&figures.Memory.Separate, &figures.Cached.Separate},
	} {
		if err := sides[i].weigh(ctx, figure.memory, figure.cached); err != nil {
			return fmt.Errorf("%s: %w", sides[i].name, err)
		}
	}

	return json.NewEncoder(os.Stdout).Encode(figures)
}

// privateNode covers what plugins write to, and makes a pod.
func privateNode() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}

	for _, dir := range []string{"/run", "/var/lib"} {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("covering %s: %w", dir, err)
		}
	}

	if out, err := exec.Command("ip", "netns", "add", "pod").CombinedOutput(); err != nil {
		return fmt.Errorf("making a pod: %w: %s", err, out)
	}

	return nil
}

func (s *side) round(ctx context.Context) error {
	taken, err := s.call(ctx, "VERSION")
	if err != nil {
		return err
	}

	s.version = append(s.version, taken)

	if taken, err = s.call(ctx, "ADD"); err != nil {
		return err
	}

	s.add = append(s.add, taken)

	_, err = s.call(ctx, "DEL")

	return err
}

func (s *side) environ(command string) []string {
	return []string{
		"CNI_COMMAND=" + command, "CNI_CONTAINERID=pod", "CNI_NETNS=/run/netns/pod", "CNI_IFNAME=eth0", "CNI_PATH=" + s.dir, "PATH=" + os.Getenv("PATH"),
	}
}

const config = `{"cniVersion": "1.0.0", "name": "net", "type": "bridge", "bridge": "cni0", "isGateway": true,
	"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}}`

// call executes bridge and returns how many seconds that took.
func (s *side) call(ctx context.Context, command string) (float64, error) {
	var out bytes.Buffer

	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, "bridge"))
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = s.environ(command), strings.NewReader(config), &out, &out

	start := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s: %w: %s", command, err, out.String())
	}

	return since(start), nil
}

// weigh finds out what one ADD needs of memory when it starts from disk.
func (s *side) weigh(ctx context.Context, memory, cached *float64) error {
	if err := dropCached(s.dir); err != nil {
		return err
	}

	w := &workshop{ctx: ctx}

	peak, err := w.peak(s.environ("ADD"), config, filepath.Join(s.dir, "bridge"))
	if err != nil {
		return err
	}

	*memory = float64(peak)

	if err := eachFile(s.dir, func(file *os.File) error {
		resident, err := residentBytes(file)
		*cached += float64(resident)

		return err
	}); err != nil {
		return err
	}

	_, err = s.call(ctx, "DEL")

	return err
}
