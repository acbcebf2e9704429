package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cnibake/cnibake/builder/kubernetes"
)

type manifestMultusOptions struct {
	stagingOptions
	readOnlyDir bool
	primary     string
}

func (a *app) manifestMultusCommand() *cobra.Command {
	var o manifestMultusOptions

	cmd := &cobra.Command{
		Use:   "multus [--distro DISTRIBUTION] [--image REF@DIGEST]",
		Short: "Write a patch for the DaemonSet of Multus",
		Long: `Multus writes a strategic-merge patch for the DaemonSet kube-multus-ds of Multus's thick plugin
(deployments/multus-daemonset-thick.yml of multus-cni ` + kubernetes.MultusVersion + `): the directories of the distribution, and
with --image an init container that stages the plugins.

--readonly-dir is for nodes with the extension talos-readonly: Multus finds the plugins in
` + kubernetes.ReadOnlyDir + `. --primary makes Multus the only writer of the runtime's configuration directory, and
says in comments what to set at the primary CNI and in which order; see docs/multus-cilium.md.

Where the daemon's configuration changes too, there is a second document, a ConfigMap. --kustomize
writes both as files of a kustomization, which can also be applied one by one: the ConfigMap with
kubectl apply, the DaemonSet with kubectl patch.`,
		Example: `  cnibake manifest multus --image REF@DIGEST > patch.yaml
  kubectl -n kube-system patch daemonset kube-multus-ds --patch-file patch.yaml
  cnibake manifest multus --distro k3s --image REF@DIGEST --kustomize multus
  kubectl apply -f multus/multus-config.yaml
  kubectl -n kube-system patch daemonset kube-multus-ds --patch-file multus/multus-daemonset.yaml
  cnibake manifest multus --distro talos --readonly-dir --primary cilium`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.manifestMultus(o, cmd.CommandPath()) },
	}

	o.addFlags(cmd)

	flags := cmd.Flags()
	flags.BoolVar(&o.readOnlyDir, "readonly-dir", false, "the nodes have the plugins in "+kubernetes.ReadOnlyDir)
	flags.StringVar(&o.primary, "primary", "", "make Multus the only writer beside this primary CNI: "+strings.Join(kubernetes.Primaries(), ", "))

	_ = cmd.RegisterFlagCompletionFunc("primary", cobra.FixedCompletions(kubernetes.Primaries(), cobra.ShellCompDirectiveNoFileComp))

	return cmd
}

func (a *app) manifestMultus(o manifestMultusOptions, command string) error {
	staging, err := o.staging(a)
	if err != nil {
		return usageError{err, command}
	}

	m, err := kubernetes.MultusPatch(kubernetes.MultusOptions{Staging: staging, ReadOnlyDir: o.readOnlyDir, Primary: o.primary})
	if err != nil {
		return manifestError(fmt.Errorf("making a patch for Multus: %w", err), command)
	}

	if o.image == "" && !o.readOnlyDir {
		a.log().Info("no --image: the patch stages nothing")
	}

	return a.writeManifest(m, o.kustomize)
}
