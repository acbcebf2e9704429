// Package sameness is how two builds of the same plugins are compared: cases, which are calls to
// plugins as data; a player, which makes the calls on a node and records every answer and what can be
// seen of the node afterwards; and a comparison that sees past random names and addresses.
//
// Where a case is played is up to the caller: the tests of this package play in network namespaces of
// their own, a boot test may play on a node.
package sameness

import (
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"
)

// Paths that every node has, so that no configuration and no message depends on where it is played.
const (
	root = "/run/sameness"
	// BinDir holds the plugins; it is the CNI_PATH of every call.
	BinDir = root + "/bin"
	// DataDir is empty at the start of a case.
	DataDir = root + "/data"
	// NetnsDir holds the pods' network namespaces, by the pods' names.
	NetnsDir = "/run/netns"
)

// Pods are all pods. Most cases need only the first.
var Pods = []string{"pod-a", "pod-b"}

// Case is a story that is told to plugins on a node of its own.
type Case struct {
	Name string
	// Needs lists kinds of links, as they follow `ip link add type`, without which the kernel cannot
	// do what the case asks for. Plugins then fail, which they must do alike.
	Needs []string
	// Links are there before the first call, Files too: by name inside DataDir.
	Links []Link
	Files map[string]string
	Calls []Call
}

// Link is a pair of virtual Ethernet links. Both are up. The peer's end lies in a pod, or on the node
// like the first when Pod is empty.
type Link struct {
	Name, Peer, Pod string
}

// Call is one execution of a plugin.
type Call struct {
	// Plugin is the name it is called by.
	Plugin string
	// Command is CNI_COMMAND; no variable at all when empty.
	Command string
	// Pod is the container ID, and the name of its network namespace.
	Pod string
	// Config is what the plugin reads from standard input.
	Config string
	// Previous puts the result of the last successful ADD for the pod into the configuration.
	Previous bool
	// Env replaces variables; Unset removes them. Args follow the plugin's name.
	Env   map[string]string
	Unset []string
	Args  []string
	// What tells this call from others like it.
	What string

	// Succeeds is set for a call that must succeed wherever the kernel has what the case needs.
	Succeeds bool
	// Undo deletes again what an ADD of a wrong configuration unexpectedly made.
	Undo bool
	// Observe looks at the node afterwards.
	Observe bool
}

// Cases returns all cases, in order.
func Cases() []Case {
	return slices.Concat(mainCases(), metaCases(), ipamCases(), faultCases())
}

// Pods are the pods whose network namespaces the case uses.
func (c Case) Pods() []string {
	var used []string

	for _, pod := range Pods {
		if slices.ContainsFunc(c.Calls, func(call Call) bool { return call.Pod == pod }) {
			used = append(used, pod)
		}
	}

	return used
}

// Label names a call in reports.
func (c Call) Label() string {
	label := c.Plugin + " " + c.Command
	if c.Command == "" {
		label = c.Plugin + " without a command"
	}

	if c.What != "" {
		label += ", " + c.What
	}

	return label
}

// environment is that of a container runtime, changed as the call says, in sorted order.
func (c Call) environment() []string {
	variables := map[string]string{
		"PATH":            "/usr/sbin:/usr/bin:/sbin:/bin",
		"CNI_CONTAINERID": c.Pod,
		"CNI_NETNS":       path.Join(NetnsDir, c.Pod),
		"CNI_IFNAME":      "eth0",
		"CNI_PATH":        BinDir,
	}

	if c.Command != "" {
		variables["CNI_COMMAND"] = c.Command
	}

	maps.Copy(variables, c.Env)

	var environ []string

	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !slices.Contains(c.Unset, name) {
			environ = append(environ, name+"="+variables[name])
		}
	}

	return environ
}

// object is a JSON object of a configuration.
type object = map[string]any

// with returns a copy with the fields replaced; a field that is nil is removed.
func with(base object, changes object) object {
	changed := maps.Clone(base)

	for key, value := range changes {
		changed[key] = value
		if value == nil {
			delete(changed, key)
		}
	}

	return changed
}

// variant is a change to a configuration, and what it is.
type variant struct {
	what    string
	changes object
}

// encode cannot fail on what JSON can hold, and cases hold nothing else.
func encode(value any) string {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)

	if err := encoder.Encode(value); err != nil {
		panic(err)
	}

	return out.String()
}
