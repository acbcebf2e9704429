package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
)

// Limits of what one configuration may call.
const (
	maxDelegates = 8
	maxCalls     = 256
)

// maxAllCalls bounds how many plugins are examined in all.
const maxAllCalls = 20_000

// call is a plugin that a configuration calls. cniVersion is the one it is called with.
type call struct {
	*pluginConf
	role, name, cniVersion string
}

// attachment examines the configuration of an attachment.
func (d *doctor) attachment(ctx context.Context, a *attachment) Attachment {
	out := newAttachment(a.name, a.from)
	name := ""

	if a.own {
		_, name, _ = strings.Cut(a.name, "/")
	}

	if a.own && strings.TrimSpace(string(a.data)) == "" {
		d.withoutConfig(ctx, &out, name)

		return out
	}

	n, err := parseAttachment(a.data, name)
	if err != nil {
		d.refused(&out.Findings, a.from, a.data, err)

		return out
	}

	d.examineNetwork(ctx, &out, n, d.attachView, d.attachDirs)

	if vm := d.vmOf(a.name); vm != "" {
		d.examineVM(&out, n, vm)
	}

	return out
}

// withoutConfig examines an attachment whose configuration is a file of the node.
func (d *doctor) withoutConfig(ctx context.Context, out *Attachment, name string) {
	confDir := cmp.Or(d.multusConf.ConfDir, defaultMultusConfDir)

	for _, dir := range []string{confDir, d.ConfDir} {
		for _, f := range d.configFiles(dir) {
			if n, err := d.readConfig(f); err == nil && n.name == name {
				d.examineNetwork(ctx, out, n, d.attachView, d.attachDirs)

				return
			}
		}
	}

	d.report(&out.Findings, NoConfig, todo("Write a CNI configuration into %s.", out.From),
		"%s is empty, and no file in %s is a network of that name", out.From, confDir)
}

func newAttachment(name, from string) Attachment {
	return Attachment{Name: safe(name), From: safe(from), Plugins: []Plugin{}, Findings: []Finding{}}
}

// refused reports a configuration that the runtime refuses.
func (d *doctor) refused(to *[]Finding, where string, data []byte, err error) {
	v := BadConfig
	if isSyntax(err) {
		v = BadJSON
	}

	d.correct(to, v, where+position(data, 0, err), jsonError(err))
}

// examineNetwork examines every plugin that a network calls.
func (d *doctor) examineNetwork(ctx context.Context, out *Attachment, n *network, v *view, dirs []string) {
	calls := callsOf(n)
	d.calls += len(calls)

	for _, wrong := range []struct {
		is   bool
		text string
	}{
		{badName(n.name), "the network needs a \"name\" of letters, digits, dots, dashes and underscores, not \"" + n.name + "\""},
		{len(calls) == 0, "it calls no plugin"},
		{len(calls) > maxCalls, "it calls more plugins than are examined"},
	} {
		if wrong.is {
			d.correct(&out.Findings, BadConfig, out.From, wrong.text)
		}
	}

	for i := range calls[:min(len(calls), maxCalls, max(maxAllCalls-d.calls, 0))] {
		out.Plugins = append(out.Plugins, d.plugin(ctx, out.From, &calls[i], v, dirs))
	}
}

// callsOf lists the plugins that a network calls: those of the list, their address management, and
// those that plugins call themselves. The list's cniVersion counts for all its plugins.
func callsOf(n *network) []call {
	var calls []call

	for _, p := range n.plugins {
		calls = p.calls(calls, "plugin", n.cniVersion, maxDelegates)
	}

	return calls
}

func (c *pluginConf) calls(calls []call, role, version string, depth int) []call {
	if len(calls) > maxCalls || depth == 0 {
		return calls
	}

	calls = append(calls, call{c, role, c.Type, version})

	if c.IPAM.Type != "" {
		calls = append(calls, call{c, "ipam", c.IPAM.Type, version})
	}

	for _, n := range c.delegates(version) {
		for _, p := range n.plugins {
			calls = p.calls(calls, "delegate", n.cniVersion, depth-1)
		}
	}

	return calls
}

// delegates returns what a plugin calls itself: the networks that Multus lists, and the one that
// flannel completes.
func (c *pluginConf) delegates(version string) []*network {
	var keys struct {
		Delegates []json.RawMessage
		Delegate  json.RawMessage
	}

	if json.Unmarshal(c.raw, &keys) != nil {
		return nil
	}

	var found []*network

	for _, raw := range keys.Delegates {
		if n, err := parseAttachment(raw, "delegate"); err == nil {
			found = append(found, n)
		}
	}

	one := &pluginConf{raw: keys.Delegate}
	_ = json.Unmarshal(keys.Delegate, one)

	if c.Type == "flannel" { // what its delegate does not say, it fills in
		one.Type = cmp.Or(one.Type, "bridge")
		one.IPAM.Type = cmp.Or(one.IPAM.Type, "host-local")
	}

	if one.Type != "" {
		found = append(found, &network{cniVersion: cmp.Or(one.CNIVersion, version), plugins: []*pluginConf{one}})
	}

	return found
}

// badName reports whether libcni refuses a network's name.
func badName(name string) bool {
	for i, r := range name {
		plain := r|0x20 >= 'a' && r|0x20 <= 'z' || r >= '0' && r <= '9'
		if !plain && (i == 0 || !strings.ContainsRune("_.-", r)) {
			return true
		}
	}

	return name == ""
}
