#!/bin/bash
# kube-router's firewall in a node: `start SERVICE_RANGE` returns when it enforces NetworkPolicies,
# `stop` takes away all that it wrote, and this folder.
set -euo pipefail

folder=/opt/kube-router
export PATH=$folder:$PATH LD_LIBRARY_PATH=$folder

start() {
  # That of a run that was killed.
  systemctl stop kube-router 2>/dev/null || true
  systemd-run --quiet --collect --unit=kube-router --setenv=PATH --setenv=LD_LIBRARY_PATH \
    $folder/kube-router --run-firewall=true --run-router=false --run-service-proxy=false \
    --kubeconfig=$folder/kubeconfig --hostname-override="$HOSTNAME" --service-cluster-ip-range="$1"
  # It writes the rules of all pods at once.
  until iptables --wait -S KUBE-ROUTER-FORWARD 2>/dev/null | grep -q KUBE-POD-FW-; do
    if ! systemctl is-active --quiet kube-router; then
      journalctl --unit=kube-router --lines=15
      return 1
    fi
    sleep 0.2
  done
}

# kube-router leaves its rules when it ends, and its own clean-up also touches what it never wrote.
stop() {
  systemctl stop kube-router || true
  local chains='KUBE-\(ROUTER\|POD-FW\|NWPLCY\)-[A-Z0-9]*' rules
  rules=$(iptables-save -t filter)
  {
    echo '*filter'
    sed -n "s/^:\($chains\) .*/:\1 - [0:0]/p" <<<"$rules"
    sed -n "s/^-A \(\(INPUT\|FORWARD\|OUTPUT\) .* -j $chains\)$/-D \1/p" <<<"$rules"
    sed -n "s/^:\($chains\) .*/-X \1/p" <<<"$rules"
    echo COMMIT
  } | iptables-restore --wait --noflush
  for set in $(ipset list -name | sed -n '/^KUBE-\(SRC\|DST\)-/p'); do
    destroy "$set"
  done
  rm -r "$folder"
}

# The kernel releases a set a moment after the last rule that names it.
destroy() {
  for _ in {1..50}; do
    ipset destroy "$1" 2>/dev/null && return
    sleep 0.1
  done
  ipset destroy "$1"
}

"$@"
