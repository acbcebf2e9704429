package kubernetes

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// daemonSetName is that of the DaemonSet, and of everything labelled as belonging to it.
const daemonSetName = "cni-plugins"

// What a DaemonSet has unless something else is asked for.
const (
	// DefaultNamespace is where the DaemonSet is.
	DefaultNamespace = "cni-plugins"
	// DefaultMetricsAddress is where it serves its metrics and what its probes ask.
	DefaultMetricsAddress = "127.0.0.1:9797"
)

// systemNamespace is there in every cluster, and not ours to make or to label.
const systemNamespace = "kube-system"

// DaemonSetOptions say what the DaemonSet does and where it runs.
type DaemonSetOptions struct {
	Staging
	// Namespace is where it is; empty is DefaultNamespace.
	Namespace string
	// NodeSelector are labels that nodes have to have.
	NodeSelector map[string]string
	// MetricsAddress is HOST:PORT; empty is DefaultMetricsAddress.
	MetricsAddress string
	// Uninstall takes back what was staged instead, node by node. The DaemonSet is to be deleted then.
	Uninstall bool
}

// DaemonSet returns the manifest that stages the plugins on every node and keeps watch over them.
func DaemonSet(o DaemonSetOptions) (*Manifest, error) {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}

	if o.MetricsAddress == "" {
		o.MetricsAddress = DefaultMetricsAddress
	}

	if err := o.check(); err != nil {
		return nil, err
	}

	if o.Uninstall && (len(o.Skip) > 0 || o.Update != "" || o.TakeOver) {
		return nil, errors.New("to uninstall is to take back whatever was written: what is skipped, updated or taken over is of no account")
	}

	if err := checkNames(o.Namespace, o.NodeSelector); err != nil {
		return nil, err
	}

	if _, err := CheckImage(o.Image, o.Preloaded); err != nil {
		return nil, err
	}

	address, err := parseAddress(o.MetricsAddress)
	if err != nil {
		return nil, err
	}

	m := &Manifest{}
	if o.Namespace != systemNamespace {
		m.documents = append(m.documents, o.namespace())
	}

	m.documents = append(m.documents, document{
		file:     "daemonset.yaml",
		object:   o.daemonSet(address),
		header:   o.header(),
		comments: o.comments(),
	})

	return m, nil
}

// parseAddress reads HOST:PORT with an IP address as host. Names are refused, since probes take none of them.
func parseAddress(s string) (netip.AddrPort, error) {
	address, err := netip.ParseAddrPort(s)

	switch {
	case err != nil:
		return address, fmt.Errorf("metrics address %q is not IP:PORT, such as %s", s, DefaultMetricsAddress)
	case address.Port() == 0:
		return address, fmt.Errorf("metrics address %q: the port has to be known beforehand", s)
	case address.Addr().Zone() != "":
		return address, fmt.Errorf("metrics address %q: an address with a zone means one node only", s)
	default:
		return address, nil
	}
}

func (o DaemonSetOptions) namespace() document {
	const level = "pod-security.kubernetes.io/"

	return document{
		file: "namespace.yaml",
		object: &corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{
				Name:   o.Namespace,
				Labels: map[string]string{level + "enforce": "privileged", level + "audit": "privileged", level + "warn": "privileged"},
			},
		},
		comments: []comment{{"metadata/labels", "The node's directories and network are what pod security calls privileged: without the label no pod appears, and only the DaemonSet's events say why. No container is privileged."}},
	}
}

func (o DaemonSetOptions) daemonSet(address netip.AddrPort) *appsv1.DaemonSet {
	labels := map[string]string{"app.kubernetes.io/name": daemonSetName}

	selector := map[string]string{"kubernetes.io/os": "linux"}
	maps.Copy(selector, o.NodeSelector)

	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: daemonSetName, Namespace: o.Namespace, Labels: labels},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      labels,
					Annotations: map[string]string{"kubectl.kubernetes.io/default-container": "watch"},
				},
				Spec: corev1.PodSpec{
					Volumes:                       o.volumes(),
					InitContainers:                []corev1.Container{o.first()},
					Containers:                    []corev1.Container{o.watch(address)},
					TerminationGracePeriodSeconds: new(int64(10)),
					DNSPolicy:                     corev1.DNSDefault,
					NodeSelector:                  selector,
					AutomountServiceAccountToken:  new(false),
					HostNetwork:                   true,
					Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
					PriorityClassName:             "system-node-critical",
					EnableServiceLinks:            new(false),
				},
			},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(1))},
			},
		},
	}
}

// first returns the container that runs to its end before the watch.
func (o DaemonSetOptions) first() corev1.Container {
	return o.installer(o.verb(), o.verb(), "bin", inHost(o.Distro.BinDir), "state")
}

// verb is what the first container does, and its name.
func (o DaemonSetOptions) verb() string {
	if o.Uninstall {
		return "uninstall"
	}

	return "install"
}

// watch returns the container that keeps what was staged.
func (o DaemonSetOptions) watch(address netip.AddrPort) corev1.Container {
	mounts := []corev1.VolumeMount{
		{Name: "bin", MountPath: inHost(o.Distro.BinDir)},
		{Name: "state", MountPath: stateDir},
	}

	if dir := o.Distro.LinkDir; dir != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: "links", MountPath: inHost(dir), ReadOnly: true})
	}

	if dir := o.Distro.OverlayUpper; dir != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: "upper", MountPath: inHost(dir), ReadOnly: true})
	}

	c := o.container("watch", "watch", "5m", "16Mi", mounts...)
	c.Args = append(c.Args, "--listen="+address.String())
	if o.Uninstall {
		c.Args = append(c.Args, "--only=none")
	}

	c.Env = o.environment(inHost(o.Distro.BinDir))

	if dir := o.Distro.OverlayUpper; dir != "" {
		c.Env = append(c.Env, corev1.EnvVar{Name: "CNI_INSTALL_UPPER", Value: inHost(dir)})
	}

	port := int32(address.Port())
	c.Ports = []corev1.ContainerPort{{Name: "metrics", HostPort: port, ContainerPort: port, Protocol: corev1.ProtocolTCP}}
	c.LivenessProbe = probe(address, "/livez", 30)
	c.ReadinessProbe = probe(address, "/livez", 10)

	return c
}

// probe asks a path of the metrics address, as the kubelet reaches it.
func probe(address netip.AddrPort, path string, seconds int32) *corev1.Probe {
	host := address.Addr()

	switch {
	case !host.IsUnspecified():
	case host.Is4():
		host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	default:
		host = netip.IPv6Loopback()
	}

	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromString("metrics"), Host: host.String(), Scheme: corev1.URISchemeHTTP,
		}},
		TimeoutSeconds:   5,
		PeriodSeconds:    seconds,
		FailureThreshold: 3,
	}
}

func (o DaemonSetOptions) volumes() []corev1.Volume {
	d := o.Distro

	// A directory that only this distribution has is there before any pod; making it would hide that
	// the nodes are of another one.
	binType := corev1.HostPathDirectory
	if d.BinDir == "/opt/cni/bin" {
		binType = corev1.HostPathDirectoryOrCreate
	}

	volumes := []corev1.Volume{
		hostPath(d, "bin", d.BinDir, binType),
		hostPath(d, "state", stateDir, corev1.HostPathDirectoryOrCreate),
	}

	if d.LinkDir != "" {
		volumes = append(volumes, hostPath(d, "links", d.LinkDir, corev1.HostPathDirectory))
	}

	if d.OverlayUpper != "" {
		volumes = append(volumes, hostPath(d, "upper", d.OverlayUpper, corev1.HostPathDirectory))
	}

	return volumes
}
