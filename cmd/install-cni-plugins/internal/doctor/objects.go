package doctor

import (
	"encoding/json"
	"strings"
)

// attachment is a configuration to examine.
type attachment struct {
	// name is "namespace/name" of an object, or a file's.
	name string
	// from says where the text comes from; positions are within it.
	from string
	data []byte
	// own says that it is an object of Kubernetes, which gets its name as the network's.
	own bool
}

// objects is what all inputs hold.
type objects struct {
	attachments []*attachment
	// vms are the attachments that virtual machines use, as "namespace/name".
	vms map[string]string
	// daemonConfig is Multus's configuration, as its ConfigMap has it.
	daemonConfig []byte
	multus       *podSpec
}

// kinds are those that are looked into, beside lists.
const kinds = " ConfigMap DaemonSet NetworkAttachmentDefinition Pod VirtualMachine VirtualMachineInstance "

// object is what is needed of any Kubernetes object.
type object struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Data     map[string]string
	Spec     struct {
		podSpec
		Config   string
		Networks []vmNetwork
		Template struct {
			Spec struct {
				podSpec
				Networks []vmNetwork
			}
		}
	}
}

type vmNetwork struct {
	Multus struct{ NetworkName string }
}

// add sorts one object in. What has no kind is a CNI configuration.
func (o *objects) add(raw []byte, from string) error {
	var kind struct{ Kind string }

	if err := json.Unmarshal(raw, &kind); err != nil {
		return err
	}

	if len(o.attachments) >= maxAttachments {
		return errTooMuch
	}

	if kind.Kind == "" {
		o.attachments = append(o.attachments, &attachment{name: from, from: from, data: raw})
	}

	if !strings.Contains(kinds, " "+kind.Kind+" ") {
		return nil
	}

	var obj object

	if err := json.Unmarshal(raw, &obj); err != nil {
		return err
	}

	switch name := qualified(obj.Metadata.Namespace, obj.Metadata.Name); kind.Kind {
	case "NetworkAttachmentDefinition":
		o.attachments = append(o.attachments, &attachment{name, name + " spec.config", []byte(obj.Spec.Config), true})
	case "DaemonSet", "Pod":
		for _, p := range []*podSpec{&obj.Spec.podSpec, &obj.Spec.Template.Spec.podSpec} {
			if p.daemon() != nil {
				o.multus = p
			}
		}
	case "ConfigMap":
		if config, ok := obj.Data["daemon-config.json"]; ok {
			o.daemonConfig = []byte(config)
		}
	default:
		o.addVM(name, append(obj.Spec.Networks, obj.Spec.Template.Spec.Networks...))
	}

	return nil
}

func (o *objects) addVM(vm string, networks []vmNetwork) {
	namespace, _, _ := strings.Cut(vm, "/")

	for _, n := range networks {
		if name := n.Multus.NetworkName; name != "" {
			if !strings.Contains(name, "/") {
				name = qualified(namespace, name)
			}

			o.vms[name] = vm
		}
	}
}

// qualified returns "namespace/name".
func qualified(namespace, name string) string {
	if namespace == "" {
		namespace = "default"
	}

	return namespace + "/" + name
}
