package kubernetes

import (
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cnibake/cnibake/profiles/distro"
)

// stateDir is where the installer keeps its record, on the node and in the container.
const stateDir = "/var/lib/cni-plugins"

// hostRoot is below which the container has the node's directories.
const hostRoot = "/host"

// container returns a container of our image with what every one of them has.
func (s Staging) container(name, verb string, cpu, memory string, mounts ...corev1.VolumeMount) corev1.Container {
	policy := corev1.PullIfNotPresent
	if s.Preloaded {
		policy = corev1.PullNever
	}

	return corev1.Container{
		Name:            name,
		Image:           s.Image,
		ImagePullPolicy: policy,
		// Also in an image with another entrypoint, such as one of Multus that the installer was added to.
		Command: []string{"/install-cni-plugins"},
		Args:    []string{verb},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse(cpu),
				corev1.ResourceMemory: resource.MustParse(memory),
			},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		},
		VolumeMounts:             mounts,
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext:          s.securityContext(),
	}
}

func (s Staging) securityContext() *corev1.SecurityContext {
	context := &corev1.SecurityContext{
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SELinuxOptions:           &corev1.SELinuxOptions{Type: "spc_t", Level: "s0"},
		RunAsUser:                new(int64(0)),
		ReadOnlyRootFilesystem:   new(true),
		AllowPrivilegeEscalation: new(false),
		SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}

	for _, capability := range s.Distro.Capabilities {
		context.Capabilities.Add = append(context.Capabilities.Add, corev1.Capability(capability))
	}

	return context
}

// securityComments are for the security context of the container at a path.
func (s Staging) securityComments(container string) []comment {
	comments := []comment{
		{container + "/securityContext/runAsUser", "Only root may write to the bin directory; without capabilities it can do little else."},
		{container + "/securityContext/seLinuxOptions", "With SELinux enforcing, containers of any other type may not write to the node's directories."},
	}

	if len(s.Distro.Capabilities) > 0 {
		comments = append(comments, comment{container + "/securityContext/capabilities/add", s.Distro.Note + "."})
	}

	return comments
}

// environment has the installer's flags as its variables, so that what is executed in the container later,
// such as verify, doctor or uninstall, has them too.
func (s Staging) environment(dest string) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: "CNI_INSTALL_DEST", Value: dest}}

	add := func(flag, value string) {
		if value != "" {
			env = append(env, corev1.EnvVar{Name: "CNI_INSTALL_" + flag, Value: value})
		}
	}

	// The generic distribution ships no names of its own.
	if s.Distro.Name != "generic" {
		add("DISTRO", s.Distro.Name)
	}

	add("SKIP", strings.Join(s.Skip, ","))
	add("UPDATE", s.Update)

	if s.TakeOver {
		add("TAKE_OVER", "true")
	}

	return env
}

// installer returns the container that stages, or takes back, with the bin directory from a volume of that name.
func (s Staging) installer(name, verb, binVolume, binPath, stateVolume string) corev1.Container {
	c := s.container(name, verb, "10m", "32Mi",
		corev1.VolumeMount{Name: binVolume, MountPath: binPath},
		corev1.VolumeMount{Name: stateVolume, MountPath: stateDir})
	c.Env = s.environment(binPath)

	return c
}

// inHost returns where a container of ours has a directory of the node.
func inHost(dir string) string {
	return path.Join(hostRoot, dir)
}

// hostPath returns a volume of a directory of the node, which has to be of that type where the kubelet can see it.
func hostPath(d distro.Distro, name, dir string, t corev1.HostPathType) corev1.Volume {
	source := &corev1.HostPathVolumeSource{Path: dir}
	if !d.KubeletInContainer {
		source.Type = &t
	}

	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{HostPath: source}}
}
