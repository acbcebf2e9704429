package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// maxConfig bounds one CNI configuration, in bytes. Real ones have hundreds; what a decoder makes of
// hostile ones is about twenty times as much.
const maxConfig = 256 << 10

// pluginConf is what libcni decodes of a plugin's configuration: values of another type make it
// refuse the whole.
type pluginConf struct {
	CNIVersion   string          `json:"cniVersion"`
	Name         string          `json:"name"`
	Type         string          `json:"type"`
	Capabilities map[string]bool `json:"capabilities"`
	IPAM         struct {
		Type string `json:"type"`
	} `json:"ipam"`
	DNS struct {
		Nameservers []string `json:"nameservers"`
		Domain      string   `json:"domain"`
		Search      []string `json:"search"`
		Options     []string `json:"options"`
	} `json:"dns"`
	PrevResult  map[string]any `json:"prevResult"`
	Attachments []struct {
		ContainerID string `json:"containerID"`
		IfName      string `json:"ifname"`
	} `json:"cni.dev/valid-attachments"`

	raw []byte
}

// network is a configuration as libcni would run it: plugins in their order.
type network struct {
	name, cniVersion string
	plugins          []*pluginConf
	// inlinedOnly says that no more plugins are to be read from a directory of the network's name.
	inlinedOnly bool
}

var (
	errNoType = errors.New("no \"type\", so there is no plugin to run")
	errTooBig = fmt.Errorf("larger than %d bytes", maxConfig)
)

// parseConf reads one plugin's configuration as libcni.ConfFromBytes does.
func parseConf(data []byte) (*network, error) {
	c := &pluginConf{raw: data}

	if len(data) > maxConfig {
		return nil, errTooBig
	}

	if err := json.Unmarshal(data, c); err != nil {
		return nil, err
	}

	if c.Type == "" {
		return nil, errNoType
	}

	return &network{c.Name, c.CNIVersion, []*pluginConf{c}, true}, nil
}

// parseList reads a list of plugins as libcni.ConfListFromBytes does. Without a list it has no plugins:
// they may lie in a directory of the network's name.
func parseList(data []byte) (*network, error) {
	if len(data) > maxConfig {
		return nil, errTooBig
	}

	var list map[string]any
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}

	var (
		n   = &network{}
		err error
	)

	if _, ok := list["name"]; !ok {
		return n, errors.New("no \"name\"")
	}

	if n.name, err = stringOf(list, "name"); err != nil {
		return n, err
	}

	if n.cniVersion, err = listVersion(list); err != nil {
		return n, err
	}

	for _, key := range []string{"disableCheck", "disableGC", "loadOnlyInlinedPlugins"} {
		if n.inlinedOnly, err = boolOf(list, key); err != nil {
			return n, err
		}
	}

	value, ok := list["plugins"]
	if !ok && !n.inlinedOnly {
		return n, nil
	}

	plugins, ok := value.([]any)

	switch {
	case !ok:
		return n, errors.New("\"plugins\" is not a list")
	case len(plugins) == 0:
		return n, errors.New("\"plugins\" is empty")
	}

	for i, p := range plugins {
		raw, err := json.Marshal(p)
		if err != nil {
			return n, err
		}

		one, err := parseConf(raw)
		if err != nil {
			return n, fmt.Errorf("plugins[%d]: %w", i, withoutPosition(err))
		}

		n.plugins = append(n.plugins, one.plugins...)
	}

	return n, nil
}

// parseAttachment reads the configuration of an attachment as Multus does: with a "type" it is one
// plugin, else a list, which gets the attachment's name where it has none.
func parseAttachment(data []byte, name string) (*network, error) {
	n, err := parseConf(data)
	if !errors.Is(err, errNoType) {
		if err == nil {
			n.name = cmp.Or(n.name, name)
		}

		return n, err
	}

	var list map[string]json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return n, err
	}

	if _, ok := list["plugins"]; !ok {
		return n, errors.New("neither \"type\" nor \"plugins\", so there is no plugin to run")
	}

	if value, ok := list["name"]; name != "" && (!ok || string(value) == `""`) {
		list["name"], _ = json.Marshal(name)

		if data, err = json.Marshal(list); err != nil {
			return n, err
		}
	}

	return parseList(data)
}

func stringOf(list map[string]any, key string) (string, error) {
	value, ok := list[key]
	text, isString := value.(string)

	if ok && !isString {
		return "", fmt.Errorf("%q is not a string", key)
	}

	return text, nil
}

func boolOf(list map[string]any, key string) (bool, error) {
	switch value := list[key].(type) {
	case nil:
		if _, ok := list[key]; !ok {
			return false, nil
		}
	case bool:
		return value, nil
	case string:
		switch strings.ToLower(value) {
		case "true", "false":
			return strings.ToLower(value) == "true", nil
		}
	}

	return false, fmt.Errorf("%q is neither true nor false", key)
}

// listVersion returns the newest version that the list offers and libcni knows.
func listVersion(list map[string]any) (string, error) {
	one, err := stringOf(list, "cniVersion")
	if err != nil {
		return "", err
	}

	value, ok := list["cniVersions"]
	if !ok {
		return one, nil
	}

	offered, ok := value.([]any)
	if !ok {
		return "", errors.New("\"cniVersions\" is not a list")
	}

	if one != "" {
		offered = append(offered, one)
	}

	best, newest := one, version{-1}

	for _, o := range offered {
		text, ok := o.(string)
		if !ok {
			return "", errors.New("\"cniVersions\" has something that is not a string")
		}

		v, err := parseVersion(text)
		if err != nil {
			return "", err
		}

		if !v.newer(newestVersion) && v.newer(newest) {
			best, newest = text, v
		}
	}

	return best, nil
}
