#!/bin/sh
# Programs of other makers that the recorder is tried against: an SNMP agent, an IPMI simulator and an IPMI
# client. They are Debian packages; the tests start and end them on loopback ports of their own.
#
#   programs.sh present   exit code 0 if all are there
#   programs.sh install   installs what is missing, or says what to install; exit code 0 either way
set -eu
# A user's PATH often lacks the folders where Debian keeps servers.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

missing() {
  command -v snmpd >/dev/null 2>&1 || echo snmpd
  command -v ipmi_sim >/dev/null 2>&1 || echo openipmi
  command -v ipmitool >/dev/null 2>&1 || echo ipmitool
  # The simulator gets its power readings from a module that the test builds.
  [ -e /usr/include/OpenIPMI/mcserv.h ] || echo libopenipmi-dev
}

install_missing() {
  # Neither server may be started as a service of this machine: invoke-rc.d and deb-systemd-invoke ask
  # this file. One that is there already is the machine's own rule, and stays.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' HUP INT TERM
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
  fi
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=300 "$@"
}

packages=$(missing | tr '\n' ' ')
case "${1-}" in
  present) [ -z "$packages" ] ;;
  install)
    if [ -z "$packages" ]; then
      exit 0
    elif [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
      # shellcheck disable=SC2086  # Each word is a package.
      install_missing $packages || echo "Could not install $packages: tests against them will be skipped."
    else
      echo "Missing, so that tests against them will be skipped: $packages"
      echo "Debian: apt-get install $packages"
    fi
    ;;
  *)
    echo "usage: programs.sh present|install" >&2
    exit 2
    ;;
esac
