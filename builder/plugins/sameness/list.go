package sameness

import "strings"

// list is a network configuration: plugins that a runtime calls one after the other.
type list struct {
	name string
	// version is the cniVersion; 1.1.0 when empty, the newest, which knows every command.
	version string
	plugins []object
	// runtime holds values of the runtime by capability, for the plugins that declare it.
	runtime object
	env     map[string]string
	pod     string
	// fails is set where even the ADD must be refused.
	fails bool
}

// calls are what a runtime does with a list: ADD in order, CHECK, STATUS and GC, then DEL in reverse,
// and DEL once more, which the specification allows at any time.
func (l list) calls() []Call {
	if l.version == "" {
		l.version = "1.1.0"
	}

	if l.pod == "" {
		l.pod = Pods[0]
	}

	var added, looked, deleted, again []Call

	for i, plugin := range l.plugins {
		config := with(plugin, object{"cniVersion": l.version, "name": "net"})

		if declared, ok := plugin["capabilities"].(object); ok {
			runtime := object{}

			for capability := range declared {
				runtime[capability] = l.runtime[capability]
			}

			config["runtimeConfig"] = runtime
		}

		call := Call{Plugin: plugin["type"].(string), Pod: l.pod, Config: encode(config), Env: l.env, What: l.name}
		command := func(command, what string, previous, observe bool) Call {
			c := call
			c.Command, c.Previous, c.Observe = command, previous, observe

			if what != "" {
				c.What = strings.TrimPrefix(c.What+", "+what, ", ")
			}

			return c
		}

		first, last := i == 0, i == len(l.plugins)-1

		add := command("ADD", "", i > 0, last)
		add.Succeeds = !l.fails
		added = append(added, add)

		looked = append(looked, command("CHECK", "", true, false), command("STATUS", "", false, false))

		collect := command("GC", "", false, false)
		collect.Config = encode(with(config, object{"cni.dev/valid-attachments": []object{{"containerID": l.pod, "ifname": "eth0"}}}))
		looked = append(looked, collect)

		deleted = append([]Call{command("DEL", "", true, first)}, deleted...)
		again = append([]Call{command("DEL", "again", true, false)}, again...)
	}

	calls := append(added, looked...)
	calls = append(calls, deleted...)

	return append(calls, again...)
}

// story is a case of lists, one after the other.
func story(name string, lists ...list) Case {
	c := Case{Name: name}
	for _, l := range lists {
		c.Calls = append(c.Calls, l.calls()...)
	}

	return c
}

// on puts links on the node of a case.
func (c Case) on(links ...Link) Case {
	c.Links = append(c.Links, links...)

	return c
}

// needing says which kinds of links the kernel must have.
func (c Case) needing(kinds ...string) Case {
	c.Needs = append(c.Needs, kinds...)

	return c
}
