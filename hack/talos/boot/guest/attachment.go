package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/containernetworking/cni/libcni"
	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnibake/cnibake/hack/talos/boot/plan"
)

// ifname is what the attachment is called in the pod, as Multus names the first one.
const ifname = "net1"

// attachment is a pod's interface, made by the plugins as a container runtime would have it done.
type attachment struct {
	cni     *libcni.CNIConfig
	list    *libcni.NetworkConfigList
	runtime *libcni.RuntimeConf

	pod  *namespace
	host *namespace
	// address is the first of the result.
	address net.IP
}

// searchPath is what containerd searches: on the read-only shape its own directory comes first, as
// the extension's containerd part says.
func searchPath(p plan.Plan) []string {
	if p.PluginDir == plan.OptDir {
		return []string{plan.OptDir}
	}

	return []string{p.PluginDir, plan.OptDir}
}

func newAttachment(p plan.Plan, name, plugins string, capabilities map[string]any) (*attachment, error) {
	list, err := libcni.ConfListFromBytes([]byte(fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [%s]}`, name, plugins)))
	if err != nil {
		return nil, err
	}

	host, err := hostNamespace()
	if err != nil {
		return nil, err
	}

	pod, err := newNamespace("pod")
	if err != nil {
		return nil, err
	}

	return &attachment{
		cni:     libcni.NewCNIConfigWithCacheDir(searchPath(p), "/run/cni-cache", nil),
		list:    list,
		runtime: &libcni.RuntimeConf{ContainerID: "pod-" + name, NetNS: pod.path, IfName: ifname, CapabilityArgs: capabilities},
		pod:     pod,
		host:    host,
	}, nil
}

func (a *attachment) add(ctx context.Context) error {
	result, err := a.cni.AddNetworkList(ctx, a.list, a.runtime)
	if err != nil {
		return err
	}

	current, err := types.GetResult(result)
	if err != nil {
		return err
	}

	if len(current.IPs) > 0 {
		a.address = current.IPs[0].Address.IP
	}

	if !a.pod.has(ifname) {
		return fmt.Errorf("there is no %s in the pod", ifname)
	}

	return nil
}

func (a *attachment) check(ctx context.Context) error {
	return a.cni.CheckNetworkList(ctx, a.list, a.runtime)
}

// checkLast runs CHECK of the list's last plugin only, with the result of the whole list.
func (a *attachment) checkLast(ctx context.Context) error {
	list := *a.list
	list.Plugins = list.Plugins[len(list.Plugins)-1:]

	return a.cni.CheckNetworkList(ctx, &list, a.runtime)
}

func (a *attachment) del(ctx context.Context) error {
	if err := a.cni.DelNetworkList(ctx, a.list, a.runtime); err != nil {
		return err
	}

	if a.pod.has(ifname) {
		return errors.New(ifname + " is still in the pod")
	}

	return nil
}

func (a *attachment) close() {
	a.pod.close()
	a.host.file.Close()
}
