// CoreDNS with the plugins that kubeadm's Corefile names and no others: a tenth of the build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// The order in which CoreDNS runs its plugins, whatever the order in the Corefile.
	dnsserver.Directives = []string{
		"reload", "ready", "health", "prometheus", "errors",
		"loadbalance", "cache", "kubernetes", "loop", "forward",
	}
	coremain.Run()
}
