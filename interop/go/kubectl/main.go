// Command kubectl is kubectl itself, built from its published Go module.
//
// It exists for machines that have a Go tool but no kubectl: the transcript tests want the real client, and a
// module proxy is a more dependable source of it than a distribution's packages. The three lines of set-up
// are the ones upstream's own cmd/kubectl has; anything more would make this a different client.
package main

import (
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	// kubeconfig files may name any of the standard credential plugins.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}
