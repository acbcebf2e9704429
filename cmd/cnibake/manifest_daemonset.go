package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder/kubernetes"
)

type manifestDaemonSetOptions struct {
	stagingOptions
	namespace      string
	nodeSelector   map[string]string
	metricsAddress string
	stage          onOff
	uninstall      bool
}

func (a *app) manifestDaemonSetCommand() *cobra.Command {
	o := manifestDaemonSetOptions{stage: true}

	cmd := &cobra.Command{
		Use:   "daemonset --distro DISTRIBUTION --image REF@DIGEST",
		Short: "Write a DaemonSet that stages the plugins on every node and keeps them there",
		Long: `Daemonset writes a namespace and a DaemonSet. On every node an init container stages the plugins, and
a container keeps watch: it restores what goes missing and serves metrics. Names that the
distribution ships itself are left to it, unless --take-over is given.

--uninstall writes the DaemonSet that takes all of that back: apply it in the place of the other, wait
for the rollout, delete it.

No container is privileged or has capabilities that the distribution does not ask for.
--stage takes true, yes, on, 1 or false, no, off, 0, for templates and pipelines; off writes nothing.`,
		Example: `  cnibake manifest daemonset --distro k3s --image registry.example/install-cni-plugins:v1.9.1-1@sha256:... | kubectl apply -f -
  cnibake manifest daemonset --distro talos --image REF@DIGEST --node-selector node-role.kubernetes.io/worker= --kustomize cni-plugins`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.manifestDaemonSet(o, cmd.CommandPath()) },
	}

	o.addFlags(cmd)

	flags := cmd.Flags()
	flags.StringVar(&o.namespace, "namespace", kubernetes.DefaultNamespace, "namespace of the DaemonSet; kube-system is not written, since it is there")
	flags.StringToStringVar(&o.nodeSelector, "node-selector", nil, "labels that nodes have to have, as KEY=VALUE")
	flags.StringVar(&o.metricsAddress, "metrics-address", kubernetes.DefaultMetricsAddress, "where the watch serves metrics and answers probes, on the node's network")
	flags.BoolVar(&o.uninstall, "uninstall", false, "take back what was staged, node by node")
	flags.Var(&o.stage, "stage", "whether to stage at all")

	return cmd
}

func (a *app) manifestDaemonSet(o manifestDaemonSetOptions, command string) error {
	if !o.stage {
		a.log().Info("staging is off (--stage): nothing is written")

		return nil
	}

	if o.image == "" {
		return usageError{errors.New("--image is missing: the reference of the image to stage from, as cnibake push prints it"), command}
	}

	staging, err := o.staging(a)
	if err != nil {
		return usageError{err, command}
	}

	m, err := kubernetes.DaemonSet(kubernetes.DaemonSetOptions{
		Staging: staging, Namespace: o.namespace, NodeSelector: o.nodeSelector, MetricsAddress: o.metricsAddress, Uninstall: o.uninstall,
	})
	if err != nil {
		return manifestError(fmt.Errorf("making a DaemonSet: %w", err), command)
	}

	return a.writeManifest(m, o.kustomize)
}
