package sameness

import (
	"maps"
	"slices"
)

// commands are all that a plugin may be asked.
var commands = []string{"ADD", "CHECK", "DEL", "STATUS", "GC", "VERSION"}

// attached is the result of a main plugin for the link that faultCases puts into the pod.
var attached = object{
	"cniVersion": "1.0.0",
	"interfaces": []object{{"name": "eth0", "sandbox": NetnsDir + "/" + Pods[0]}},
	"ips":        []object{{"address": "10.88.0.2/24", "gateway": "10.88.0.1", "interface": 0}},
}

// sound are configurations that are good enough for a plugin to go to work, one for each plugin.
var sound = []object{
	with(limited, object{"prevResult": attached}),
	bridged,
	with(guarded, object{"prevResult": attached}),
	{"type": "host-device", "device": "up1", "ipam": pool},
	{"type": "host-local", "ipam": pool},
	{"type": "ipvlan", "master": "up0", "ipam": pool},
	{"type": "macvlan", "master": "up0", "ipam": pool},
	with(published, object{"prevResult": attached, "runtimeConfig": portMappings}),
	routed,
	with(bySource, object{"prevResult": attached}),
	{"type": "static", "ipam": fixed},
	// With one value only: which of several a plugin complains of is random.
	with(tuned, object{"prevResult": attached, "sysctl": object{"net.core.somaxconn": "500"}}),
	{"type": "vlan", "master": "up0", "vlanId": 5, "ipam": pool},
	with(separated, object{"prevResult": attached}),
}

// faultCases tell each plugin everything that a runtime must not.
func faultCases() []Case {
	cases := make([]Case, 0, len(sound))

	for _, plugin := range sound {
		name := plugin["type"].(string)
		config := with(plugin, object{"cniVersion": "1.0.0", "name": "net"})

		var calls []Call
		for _, command := range commands {
			calls = append(calls, faults(name, command, config)...)
		}

		calls = append(calls, strangeCommands(name, config)...)
		calls[len(calls)-1].Observe = true

		links := []Link{uplink}
		if _, chained := plugin["prevResult"]; chained {
			links = append(links, Link{Name: "outside", Peer: "eth0", Pod: Pods[0]})
		}

		cases = append(cases, Case{Name: "faults of " + name, Links: links, Calls: calls})
	}

	return cases
}

// faults are calls of one command, each wrong in one way.
func faults(plugin, command string, config object) []Call {
	call := func(what, stdin string) Call {
		return Call{Plugin: plugin, Command: command, Pod: Pods[0], What: what, Config: stdin, Undo: command == "ADD"}
	}

	changed := func(what string, changes object) Call { return call(what, encode(with(config, changes))) }

	calls := []Call{changed("no fault", nil), call("no configuration", "")}
	if command == "VERSION" {
		return calls // it reads neither configuration nor environment
	}

	calls = append(calls,
		call("cut off", `{"cniVersion": "1.0.0", `),
		call("an array", `[]`),
		changed("version of the future", object{"cniVersion": "9.9.9"}),
		changed("version that is none", object{"cniVersion": "one"}),
		changed("newest version", object{"cniVersion": "1.1.0"}),
	)

	for _, unset := range []string{"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"} {
		c := changed("no "+unset, nil)
		c.Unset = []string{unset}
		calls = append(calls, c)
	}

	env := func(what, name, value string) {
		c := changed(what, nil)
		c.Env = map[string]string{name: value}
		calls = append(calls, c)
	}

	if command == "STATUS" || command == "GC" {
		return calls // they are about no container
	}

	env("namespace that is missing", "CNI_NETNS", NetnsDir+"/none")
	env("namespace that is a file", "CNI_NETNS", "/etc/passwd")
	env("the node's namespace", "CNI_NETNS", "/proc/self/ns/net")
	env("interface with a slash", "CNI_IFNAME", "a/b")
	env("container of odd name", "CNI_CONTAINERID", "-x/")
	env("arguments that are none", "CNI_ARGS", "nonsense")

	if command == "CHECK" {
		return calls // it does nothing with the rest
	}

	env("own namespace allowed", "CNI_NETNS_OVERRIDE", "true")
	env("long interface", "CNI_IFNAME", "a234567890123456")
	env("unknown arguments", "CNI_ARGS", "FOO=bar")

	calls = append(calls,
		changed("oldest version", object{"cniVersion": "0.1.0"}),
		changed("old version", object{"cniVersion": "0.3.1"}),
		changed("no name", object{"name": nil}),
		changed("name with a slash", object{"name": "a/b"}),
		changed("unknown address plugin", object{"ipam": object{"type": "no-such-plugin"}}),
		changed("address plugin of no type", object{"ipam": object{}}),
		changed("previous result of another kind", object{"prevResult": "x"}),
		changed("previous result that is empty", object{"prevResult": object{"cniVersion": "1.0.0"}}),
	)

	for _, field := range slices.Sorted(maps.Keys(config)) {
		if field == "cniVersion" || field == "name" {
			continue
		}

		calls = append(calls,
			changed("no "+field, object{field: nil}),
			changed("wrong "+field, object{field: []object{{"wrong": true}}}))
	}

	return calls
}

// strangeCommands are what is no command, the question who the plugin is among them.
func strangeCommands(plugin string, config object) []Call {
	call := Call{Plugin: plugin, Pod: Pods[0], Config: encode(config)}

	unknown, empty, about, flags := call, call, call, call
	unknown.Command = "RESTART"
	empty.Env, empty.What = map[string]string{"CNI_COMMAND": ""}, "but an empty variable"
	about.Config = ""
	flags.Args, flags.What = []string{"--version", "-h"}, "with flags"

	return []Call{unknown, empty, about, flags}
}
