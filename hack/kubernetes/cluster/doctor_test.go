package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cnibake/cnibake/hack/kubernetes/node"
)

// diagnosis is the part of the doctor's report that matters here.
type diagnosis struct {
	Good        bool `json:"good"`
	Attachments []struct {
		Name    string `json:"name"`
		Plugins []struct {
			Type     string    `json:"type"`
			Findings []finding `json:"findings"`
		} `json:"plugins"`
	} `json:"attachments"`
	Advice []struct {
		Do       string   `json:"do"`
		Commands []string `json:"commands"`
		Verdicts []string `json:"verdicts"`
	} `json:"advice"`
}

type finding struct {
	Verdict string `json:"verdict"`
	Text    string `json:"text"`
}

// doctorFinds asks the installer on the node about the attachments whose pods have failed: each lacks
// the plugin that it is called by, and the advice is to stage it.
func (s *scene) doctorFinds(t *testing.T) string {
	report, err := s.Try(t.Context(), s.definitions(t), s.installer, "doctor", "--bin-dir="+s.pluginDir, "--conf-dir="+s.confDir, "--nad=-", "-o", "json")

	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("the doctor should have exited with 1: %v\n%s", err, report)
	}

	return s.expectMissing(t, report)
}

// doctorInPod lets it look at the node from a pod that sees all of it, as docs/doctor.md says. Of the
// attachments it knows nothing there: kubectl debug does not close standard input.
func (s *scene) doctorInPod(image string) func(t *testing.T) string {
	return func(t *testing.T) string {
		said := s.Kubectl(t, "debug", "node/"+node.Name, "--namespace=kube-system", "--profile=sysadmin", "--image="+image, "--",
			"/install-cni-plugins", "doctor", "-o", "json")

		name := regexp.MustCompile(`node-debugger-\S+`).FindString(said)
		s.WaitFor(t, "the doctor", time.Minute, "--namespace=kube-system", "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=1s", "pod/"+name)

		report := s.Kubectl(t, "--namespace=kube-system", "logs", name)
		s.Kubectl(t, "--namespace=kube-system", "delete", "pod", name, "--timeout=50s")

		for _, network := range decode(t, report).Attachments {
			if network.Name == "10-pods.conflist" {
				return fmt.Sprintf("exit code 0; %d plugins of %s", len(network.Plugins), network.Name)
			}
		}

		t.Errorf("the doctor has not seen the primary network:\n%s", report)

		return ""
	}
}

func (s *scene) expectMissing(t *testing.T, report string) string {
	t.Helper()

	d := decode(t, report)

	var seen []string

	for _, a := range s.attachments {
		found := d.finding("default/"+a.name, a.name)
		if found.Verdict != "missing" {
			t.Errorf("of plugin %s the doctor says %+v:\n%s", a.name, found, report)
		}

		seen = append(seen, fmt.Sprintf("%s: `%s`", a.name, found.Text))
	}

	for _, advice := range d.Advice {
		if !slices.Contains(advice.Verdicts, "missing") {
			continue
		}

		for _, a := range s.attachments {
			if !strings.Contains(strings.Join(advice.Commands, "\n"), a.name) {
				t.Errorf("the advice does not bring %s:\n%s", a.name, report)
			}
		}

		first, _, _ := strings.Cut(advice.Do, ". ")

		return strings.Join(seen, ", ") + ", advice: " + first
	}

	t.Errorf("there is no advice:\n%s", report)

	return ""
}

// doctorContent asks again, in our pod, when nothing is missing.
func (s *scene) doctorContent(t *testing.T) string {
	report := s.kubectlWith(t, s.definitions(t), ourNamespace, "exec", "--stdin", ourSet, "--container=watch", "--",
		"/install-cni-plugins", "doctor", "--nad=-", "-o", "json")

	if d := decode(t, report); !d.Good || len(d.Attachments) < len(s.attachments) {
		t.Errorf("the doctor is not content, or with less than all:\n%s", report)
	}

	return "exit code 0"
}

func (s *scene) definitions(t *testing.T) string {
	t.Helper()

	return s.Kubectl(t, "get", "network-attachment-definitions", "--all-namespaces", "--output=json")
}

func decode(t *testing.T, report string) diagnosis {
	t.Helper()

	var d diagnosis
	if err := json.Unmarshal([]byte(report), &d); err != nil {
		t.Fatalf("%v in %q", err, report)
	}

	return d
}

// finding is the first one about a plugin of an attachment.
func (d diagnosis) finding(attachment, plugin string) finding {
	for _, a := range d.Attachments {
		if a.Name != attachment {
			continue
		}

		for _, p := range a.Plugins {
			if p.Type == plugin && len(p.Findings) > 0 {
				return p.Findings[0]
			}
		}
	}

	return finding{}
}

// lineWith is the first line of a text that has this part.
func lineWith(text, part string) (string, bool) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return strings.TrimSpace(line), true
		}
	}

	return "", false
}
