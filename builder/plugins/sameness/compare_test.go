package sameness_test

import (
	"strings"
	"testing"

	"github.com/cnibake/cnibake/builder/plugins/sameness"
)

// answered is a play of one call with an answer.
func answered(stdout string, seen ...string) []sameness.Record {
	record := sameness.Record{
		Call:   sameness.Call{Plugin: "bridge", Command: "ADD", Config: `{"mac": "c2:11:22:33:44:55"}`},
		Answer: sameness.Answer{Stdout: stdout},
	}

	for _, text := range seen {
		record.Seen = append(record.Seen, sameness.Observation{What: "links", Text: text})
	}

	return []sameness.Record{record}
}

func TestCompare(t *testing.T) {
	t.Parallel()

	for name, test := range map[string]struct {
		first, second []sameness.Record
		// differs is a part of what is reported; empty when nothing may be.
		differs string
	}{
		"random address":          {answered("c6:00:00:00:00:01"), answered("d6:00:00:00:00:02"), ""},
		"address of another link": {answered("c6:00:00:00:00:01 c6:00:00:00:00:02 c6:00:00:00:00:01"), answered("c6:00:00:00:00:01 c6:00:00:00:00:02 c6:00:00:00:00:02"), "<mac 2>"},
		"address that was asked for": {
			answered("c2:11:22:33:44:55"), answered("c6:00:00:00:00:01"), "c2:11:22:33:44:55",
		},
		"random name":            {answered("veth12345678"), answered("veth87654321"), ""},
		"name of another shape":  {answered("veth12345678"), answered("eth0"), "eth0"},
		"answer and node differ": {answered("veth12345678", "veth12345678"), answered("veth12345678", "veth87654321"), "then links"},
		"time":                   {answered("2026/01/02 03:04:05 x"), answered("2026/01/02 03:04:06 x"), ""},
		"IP address":             {answered("10.0.0.2"), answered("10.0.0.3"), "- stdout: 10.0.0.2\n+ stdout: 10.0.0.3"},
		"order":                  {answered("a\nb"), answered("b\na"), "stdout"},
		"package of a type":      {answered("of type main.NetConf"), answered("of type plugin_host_local.NetConf"), ""},
		"type":                   {answered("of type main.NetConf"), answered("of type plugin_host_local.Other"), "main.Other"},
		"length":                 {answered(""), nil, "1 parts against 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			differences := strings.Join(sameness.Compare(test.first, test.second), "\n")
			if (differences == "") != (test.differs == "") || !strings.Contains(differences, test.differs) {
				t.Errorf("reported %q, want %q", differences, test.differs)
			}
		})
	}
}

// Two processes play the same case by its name, so names must be unique and cases always the same.
func TestCases(t *testing.T) {
	t.Parallel()

	names := make(map[string]bool)
	again := sameness.Cases()

	for i, c := range sameness.Cases() {
		if names[c.Name] {
			t.Errorf("two cases are called %q", c.Name)
		}

		names[c.Name] = true

		if c.Name != again[i].Name || len(c.Calls) != len(again[i].Calls) {
			t.Fatalf("case %q changed to %q", c.Name, again[i].Name)
		}

		for j, call := range c.Calls {
			if call.Label() != again[i].Calls[j].Label() || call.Config != again[i].Calls[j].Config {
				t.Errorf("%s: %s changed to %s", c.Name, call.Label(), again[i].Calls[j].Label())
			}
		}
	}
}
