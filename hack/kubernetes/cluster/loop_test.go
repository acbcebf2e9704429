package cluster

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
)

// workers is how many pods are created at a time.
const workers = 3

// outcome is what a loop of pods came to.
type outcome struct {
	created, failed int
	failures        error
}

func (o outcome) String() string { return fmt.Sprintf("%d of %d pods failed", o.failed, o.created) }

// podLoop creates pods with attachments, waits until they are ready and removes them, for as long as
// more says so, which is told how many there were. A pod has failed when its sandbox had to be made
// again, when it is not ready in a minute, or without its interface.
func (s *scene) podLoop(t *testing.T, prefix string, more func(created int) bool) outcome {
	var (
		group  sync.WaitGroup
		lock   sync.Mutex
		result outcome
	)

	for range workers {
		group.Go(func() {
			for {
				lock.Lock()
				i := result.created

				if !more(i) {
					lock.Unlock()

					return
				}

				result.created++
				lock.Unlock()

				err := s.onePod(t, s.attachments[i%len(s.attachments)], fmt.Sprintf("%s-%d", prefix, i))
				if err != nil {
					lock.Lock()
					result.failed++
					result.failures = errors.Join(result.failures, err)
					lock.Unlock()
				}
			}
		})
	}

	group.Wait()

	return result
}

func (s *scene) onePod(t *testing.T, a attachment, name string) error {
	defer func() { _, _ = s.TryKubectl(t, "", "delete", "pod", name, "--wait=false") }()

	if _, err := s.TryKubectl(t, a.pod(name), "apply", "--filename=-"); err != nil {
		return err
	}

	if _, err := s.TryKubectl(t, "", "wait", "--for=condition=Ready", "--timeout=50s", "pod/"+name); err != nil {
		return err
	}

	if _, err := s.net1(t, a, name); err != nil {
		return err
	}

	events, err := s.TryKubectl(t, "", "get", "events", "--field-selector=reason=FailedCreatePodSandBox,involvedObject.name="+name, "--output=jsonpath={.items[*].message}")
	if err != nil {
		return err
	}

	if events != "" {
		return errors.New(events)
	}

	return nil
}

// upgrade rolls another image out while pods are created, back and forth a few times: no more pods may
// fail than in as long a loop without it. On a busy machine pods fail for other reasons, too, so that a
// difference has to show twice.
func (s *scene) upgrade(older, current string) func(t *testing.T) string {
	images := []string{older, current, older, current}
	if testing.Short() {
		images = images[:2]
	}

	return func(t *testing.T) string {
		var manifests []string
		for _, image := range images {
			manifests = append(manifests, s.manifest(t, "daemonset", "--image="+image))
		}

		var seen string

		for attempt := range 2 {
			// What is there before the first one.
			s.rollOut(t, manifests[0])

			busy := s.busyLoop(t, fmt.Sprintf("busy%d", attempt), manifests[1:])
			quiet := s.podLoop(t, fmt.Sprintf("quiet%d", attempt), func(created int) bool { return created < busy.created })
			seen = fmt.Sprintf("%v during %d rollouts, %v without", busy, len(manifests)-1, quiet)

			t.Logf("%s: %v, %v", seen, busy.failures, quiet.failures)

			if t.Failed() || busy.failed <= quiet.failed {
				s.current.expectStaged(t, s.Cluster, s.pluginDir)

				return seen
			}
		}

		t.Error("twice more pods have failed during rollouts than without")

		return seen
	}
}

// busyLoop creates pods while manifests roll out, one after the other, and a few after that.
func (s *scene) busyLoop(t *testing.T, prefix string, manifests []string) outcome {
	var (
		group    sync.WaitGroup
		complete atomic.Bool
		after    int
	)

	result := s.podLoop(t, prefix, func(created int) bool {
		if created == workers {
			group.Go(func() {
				defer complete.Store(true)

				for _, manifest := range manifests {
					if err := s.tryRollOut(t, manifest); err != nil {
						t.Error(err)
					}
				}
			})
		}

		if complete.Load() {
			after++
		}

		return after <= workers
	})

	group.Wait()

	return result
}
