package cluster

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"
)

// maxWatch is what the container that keeps watch may need, in bytes.
const maxWatch = 16 << 20

// watchAtRest measures the container that keeps watch while nothing happens: the most memory that it has
// had, and processor time.
func (s *scene) watchAtRest(t *testing.T) string {
	const rest = 5 * time.Second

	process := path.Join("/proc", s.watchPID(t))
	peak := peakMemory(t, s.Path(path.Join(process, "status")))
	before := processorTime(t, s.Path(path.Join(process, "stat")))

	time.Sleep(rest)

	spent := processorTime(t, s.Path(path.Join(process, "stat"))) - before

	if peak > maxWatch {
		t.Errorf("the watch has had %d bytes of memory, at most %d were expected", peak, maxWatch)
	}

	return fmt.Sprintf("%.1f MiB of memory at most, %v of processor time in %v", float64(peak)/(1<<20), spent, rest)
}

// watchPID is the process in the node.
func (s *scene) watchPID(t *testing.T) string {
	t.Helper()

	for _, container := range s.ourPod(t).Status.ContainerStatuses {
		id := strings.TrimPrefix(container.ContainerID, "containerd://")

		for line := range strings.Lines(s.Run(t, "ctr", "--namespace=k8s.io", "tasks", "list")) {
			if fields := strings.Fields(line); container.Name == "watch" && len(fields) == 3 && fields[0] == id {
				return fields[1]
			}
		}
	}

	t.Fatal("our pod has no running container watch")

	return ""
}

func peakMemory(t *testing.T, status string) int64 {
	t.Helper()

	text, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}

	line, _ := lineWith(string(text), "VmHWM:")

	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(line, "VmHWM:")), " kB"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}

	return kilobytes << 10
}

// processorTime is a process's own and the kernel's for it. The kernel counts hundredths of a second.
func processorTime(t *testing.T, stat string) time.Duration {
	t.Helper()

	text, err := os.ReadFile(stat)
	if err != nil {
		t.Fatal(err)
	}

	// The name before them may hold anything; utime and stime are the 12th and 13th after it.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))

	var ticks int64

	for _, field := range fields[11:13] {
		count, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}

		ticks += count
	}

	return time.Duration(ticks) * 10 * time.Millisecond
}
