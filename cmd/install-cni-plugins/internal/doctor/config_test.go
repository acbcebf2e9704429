package doctor

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/google/go-cmp/cmp"
)

// configs are texts on which parsers differ when they do.
var configs = []string{
	`{"cniVersion": "0.3.1", "name": "lan", "type": "bridge", "ipam": {"type": "host-local"}}`,
	`{"cniVersion": "1.0.0", "name": "lan", "plugins": [{"type": "bridge"}, {"type": "portmap", "capabilities": {"portMappings": true}}]}`,
	`{"name": "lan", "cniVersion": "0.4.0", "cniVersions": ["0.3.0", "1.0.0", "1.1.0", "9.0.0"], "plugins": [{"type": "bridge"}]}`,
	`{"name": "lan", "cniVersions": [], "plugins": [{"type": "bridge"}]}`, `{"name": "lan", "cniVersions": ["", "1"], "plugins": [{"type": "bridge"}]}`,
	`{"name": "lan", "cniVersions": ["1.x"], "plugins": [{"type": "bridge"}]}`, `{"name": "lan", "cniVersions": null, "plugins": [{"type": "bridge"}]}`,
	`{"name": "lan", "cniVersions": [1], "plugins": [{"type": "bridge"}]}`, `{"name": "lan", "cniVersion": 1, "plugins": [{"type": "bridge"}]}`,
	`{"name": "lan", "cniVersion": "9.0.0", "cniVersions": ["0.4.0"], "plugins": [{"type": "bridge"}]}`, `{"name": "lan", "cniVersion": "x", "plugins": [{"type": "bridge"}]}`,
	`{"name": "lan", "cniVersion": "x", "cniVersions": ["0.4.0"], "plugins": [{"type": "bridge"}]}`, `{"name": "lan", "cniVersions": ["1.0.0.0"], "plugins": [{"type": "bridge"}]}`,
	`{"name": "lan", "plugins": []}`, `{"name": "lan", "plugins": {}}`, `{"name": "lan", "plugins": null}`, `{"name": "lan"}`, `{"name": 1, "plugins": [{"type": "a"}]}`,
	`{"name": null, "plugins": [{"type": "a"}]}`, `{"plugins": [{"type": "a"}]}`, `{"name": "lan", "plugins": [{"type": ""}]}`, `{"name": "lan", "plugins": [{}]}`,
	`{"name": "lan", "plugins": [1]}`, `{"name": "lan", "plugins": ["bridge"]}`, `{"name": "lan", "plugins": [null]}`, `{"name": "lan", "plugins": [[{"type": "a"}]]}`,
	`{"name": "lan", "disableCheck": "TRUE", "plugins": [{"type": "a"}]}`, `{"name": "lan", "disableCheck": "yes", "plugins": [{"type": "a"}]}`,
	`{"name": "lan", "disableGC": 1, "plugins": [{"type": "a"}]}`, `{"name": "lan", "disableGC": null, "plugins": [{"type": "a"}]}`,
	`{"name": "lan", "loadOnlyInlinedPlugins": true}`, `{"name": "lan", "loadOnlyInlinedPlugins": "false"}`, `{"name": "lan", "loadOnlyInlinedPlugins": true, "plugins": [{"type": "a"}]}`,
	`{"Name": "lan", "Plugins": [{"type": "a"}]}`, `{"NAME": "lan", "TYPE": "bridge", "IPAM": {"Type": "static"}}`, `{"type": "a", "type": "b"}`, `{"type": "a", "Type": "b"}`,
	`{"type": "a", "ipam": null}`, `{"type": "a", "ipam": []}`, `{"type": "a", "ipam": "static"}`, `{"type": "a", "ipam": {"type": 1}}`, `{"type": "a", "ipam": {}}`,
	`{"type": "a", "capabilities": {"x": "true"}}`, `{"type": "a", "capabilities": []}`, `{"type": "a", "capabilities": {"x": null}}`, `{"type": "a", "capabilities": null}`,
	`{"type": "a", "dns": {"nameservers": "1.1.1.1"}}`, `{"type": "a", "dns": {"nameservers": ["1.1.1.1", null], "search": [], "options": null}}`, `{"type": "a", "dns": []}`,
	`{"type": "a", "dns": {"domain": 1}}`, `{"type": "a", "prevResult": []}`, `{"type": "a", "prevResult": {"a": [1]}}`, `{"type": "a", "prevResult": null}`,
	`{"type": "a", "cni.dev/valid-attachments": [{"containerID": "x", "ifname": "eth0"}]}`, `{"type": "a", "cni.dev/valid-attachments": [{"containerID": 1}]}`, `{"type": "a", "cni.dev/valid-attachments": {}}`,
	`{"type": 1}`, `{"type": null}`, `{}`, `[]`, `null`, `"bridge"`, `1`, ``, ` `, `{`, `{"type": "a"} x`, `{"type": "a"}{"type": "b"}`, `{"type": "a",}`, "\ufeff{\"type\": \"a\"}", "{\"type\": \"a\xff\"}",
	`{"type": "\u0062ridge"}`, `{"type": "a", "x": 1e999}`, `{"type": "a", "name": 1}`, `{"type": "a", "cniVersion": 1}`, strings.Repeat("[", 10001), `{"type": "a", "x": ` + strings.Repeat(`{"x":`, 200) + `1` + strings.Repeat("}", 200) + `}`,
}

// summary is what libcni takes from a configuration.
type summary struct {
	Refused        bool
	Name, Version  string
	InlinedOnly    bool
	Plugins, IPAMs []string
}

func summarize(n *network, err error) summary {
	if err != nil {
		return summary{Refused: true}
	}

	s := summary{Name: n.name, Version: n.cniVersion, InlinedOnly: n.inlinedOnly}
	for _, p := range n.plugins {
		s.Plugins, s.IPAMs = append(s.Plugins, p.Type), append(s.IPAMs, p.IPAM.Type)
	}

	return s
}

func libcniConf(data []byte) summary {
	c, err := libcni.NetworkPluginConfFromBytes(data) // the new name of ConfFromBytes
	if err != nil {
		return summary{Refused: true}
	}

	return summary{Name: c.Network.Name, Version: c.Network.CNIVersion, InlinedOnly: true, Plugins: []string{c.Network.Type}, IPAMs: []string{c.Network.IPAM.Type}}
}

func libcniList(data []byte) summary {
	l, err := libcni.NetworkConfFromBytes(data) // the new name of ConfListFromBytes
	if err != nil {
		return summary{Refused: true}
	}

	s := summary{Name: l.Name, Version: l.CNIVersion, InlinedOnly: l.LoadOnlyInlinedPlugins}
	for _, p := range l.Plugins {
		s.Plugins, s.IPAMs = append(s.Plugins, p.Network.Type), append(s.IPAMs, p.Network.IPAM.Type)
	}

	return s
}

// holdToLibcni compares what both take from a text.
func holdToLibcni(t *testing.T, data []byte) (taken bool) {
	t.Helper()

	if len(data) > maxConfig {
		return false
	}

	conf, list := libcniConf(slices.Clone(data)), libcniList(slices.Clone(data))

	if diff := cmp.Diff(conf, summarize(parseConf(data))); diff != "" {
		t.Errorf("%q as a plugin's configuration, libcni - ours +:\n%s", data, diff)
	}

	if diff := cmp.Diff(list, summarize(parseList(data))); diff != "" {
		t.Errorf("%q as a list, libcni - ours +:\n%s", data, diff)
	}

	return !conf.Refused || !list.Refused
}

func TestConfigurationsAreReadAsLibcniDoes(t *testing.T) {
	t.Parallel()

	taken := 0

	for _, text := range configs {
		if holdToLibcni(t, []byte(text)) {
			taken++
		}

		// Cut short, and with a byte in it changed.
		for i := range min(len(text), 300) {
			holdToLibcni(t, []byte(text[:i]))
			holdToLibcni(t, []byte(text[:i]+`"`+text[i+1:]))
		}
	}

	if taken < 20 || taken > len(configs)-20 {
		t.Errorf("%d of %d configurations are taken: they prove too little", taken, len(configs))
	}
}

func FuzzConfig(f *testing.F) {
	for _, text := range configs {
		f.Add([]byte(text))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		holdToLibcni(t, data)

		if n, err := parseAttachment(data, "lan"); err == nil {
			if calls := callsOf(n); len(calls) > maxCalls+2 {
				t.Errorf("%d calls", len(calls))
			}
		}
	})
}

// Multus gives an attachment its own name where the configuration has none.
func TestAttachmentsAreReadAsMultusDoes(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]summary{
		`{"type": "bridge"}`:                                              {Name: "lan", InlinedOnly: true, Plugins: []string{"bridge"}, IPAMs: []string{""}},
		`{"type": "bridge", "name": "own"}`:                               {Name: "own", InlinedOnly: true, Plugins: []string{"bridge"}, IPAMs: []string{""}},
		`{"plugins": [{"type": "a"}, {"type": "b"}]}`:                     {Name: "lan", Plugins: []string{"a", "b"}, IPAMs: []string{"", ""}},
		`{"name": "", "plugins": [{"type": "a"}]}`:                        {Name: "lan", Plugins: []string{"a"}, IPAMs: []string{""}},
		`{"name": "own", "plugins": [{"type": "a"}]}`:                     {Name: "own", Plugins: []string{"a"}, IPAMs: []string{""}},
		`{"type": "", "name": "own", "plugins": [{"type": "a"}]}`:         {Name: "own", Plugins: []string{"a"}, IPAMs: []string{""}},
		`{"type": "bridge", "plugins": [{"type": "a"}]}`:                  {Name: "lan", InlinedOnly: true, Plugins: []string{"bridge"}, IPAMs: []string{""}},
		`{"name": "own"}`:                                                 {Refused: true},
		`{"cniVersion": "0.3.1", "name": "own", "plugins": [{"x": "a"}]}`: {Refused: true},
		`null`: {Refused: true},
	} {
		if diff := cmp.Diff(want, summarize(parseAttachment([]byte(text), "lan"))); diff != "" {
			t.Errorf("%s: want - got +:\n%s", text, diff)
		}
	}
}

// Every plugin that is called somewhere is known: chains, address management, delegates and what
// flannel fills in.
func TestCalls(t *testing.T) {
	t.Parallel()

	deep := `{"type": "x"}`
	for range 20 {
		deep = `{"type": "multus", "delegates": [` + deep + `]}`
	}

	for text, want := range map[string]string{
		`{"type": "bridge", "ipam": {"type": "host-local"}}`:                 "plugin bridge, ipam host-local",
		`{"name": "a", "plugins": [{"type": "bridge"}, {"type": "tuning"}]}`: "plugin bridge, plugin tuning",
		`{"type": "multus", "delegates": [{"type": "calico", "ipam": {"type": "calico-ipam"}}, {"name": "b", "plugins": [{"type": "flannel"}, {"type": "portmap"}]}]}`: "plugin multus, delegate calico, ipam calico-ipam, delegate flannel, delegate bridge, ipam host-local, delegate portmap",
		`{"type": "flannel", "delegate": {"isDefaultGateway": true}}`:                             "plugin flannel, delegate bridge, ipam host-local",
		`{"type": "flannel", "delegate": {"type": "ipvlan", "ipam": {"type": "x"}}}`:              "plugin flannel, delegate ipvlan, ipam x",
		`{"type": "other", "delegate": {"type": "ptp"}}`:                                          "plugin other, delegate ptp",
		`{"type": "multus", "delegates": [1, null, {"ipam": {"type": "x"}}], "delegate": "none"}`: "plugin multus",
		deep: strings.TrimSuffix("plugin multus, "+strings.Repeat("delegate multus, ", maxDelegates-1), ", "),
	} {
		n, err := parseAttachment([]byte(text), "lan")
		if err != nil {
			t.Errorf("%s: %v", text, err)

			continue
		}

		var got []string
		for _, c := range callsOf(n) {
			got = append(got, c.role+" "+c.name)
		}

		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: want - got +:\n%s", text, diff)
		}
	}

	many, _ := json.Marshal(map[string]any{"name": "a", "plugins": slices.Repeat([]any{map[string]string{"type": "x"}}, 10_000)})
	if n, err := parseAttachment(many, ""); err != nil || len(callsOf(n)) > maxCalls+2 {
		t.Errorf("%v, %d calls", err, len(callsOf(n)))
	}
}
