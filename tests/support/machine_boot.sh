# The first process of new namespaces: makes a machine of them, and becomes its systemd or its cron.
# sh machine_boot.sh SRV LIB PYTHON PACKAGES CHECKOUT USER UID systemd
# sh machine_boot.sh SRV LIB PYTHON PACKAGES CHECKOUT USER UID cron SPEED
set -eu
srv=$1 lib=$2 python=$3 packages=$4 checkout=$5 user=$6 uid=$7 init=$8

mount --make-rprivate /
mount -t proc proc /proc
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup

# All that is bound in below is kept in sight before its folder is covered.
mkdir -p /run/was/srv /run/was/lib /run/was/python /run/was/packages /run/was/checkout /run/etc
mount --bind "$srv" /run/was/srv
mount --bind "$lib" /run/was/lib
mount --bind "$python" /run/was/python
mount --bind "$packages" /run/was/packages
mount --bind "$checkout" /run/was/checkout

mount -t tmpfs tmpfs /run/etc
cp -a /etc/. /run/etc
mount --move /run/etc /etc
rm -rf /etc/systemd/system /etc/reconcile
mkdir -p /etc/systemd/system /etc/reconcile /run/systemd/system /run/lock
printf '%s:x:%s:%s::/srv/app:/usr/sbin/nologin\n' "$user" "$uid" "$uid" >>/etc/passwd
printf '%s:*:20000:0:99999:7:::\n' "$user" >>/etc/shadow
printf '%s:x:%s:\n' "$user" "$uid" >>/etc/group
mount --bind /run/was/lib /var/lib
mkdir /var/lib/systemd
if [ -d /var/log/journal ]; then mount -t tmpfs tmpfs /var/log/journal; fi

mount -t tmpfs -o mode=755 tmpfs /srv
mkdir /srv/app
mount --bind /run/was/srv /srv/app
chown "$uid:$uid" /srv/app
mount -t tmpfs -o mode=755 tmpfs /opt
mkdir -p /opt/python /opt/packages /opt/source/reconcile /opt/reconcile/bin
mount --bind /run/was/python /opt/python
mount --bind /run/was/packages /opt/packages
mount --bind /run/was/checkout /opt/source/reconcile
umount /run/was/srv /run/was/lib /run/was/python /run/was/packages /run/was/checkout

# A console script, which in an environment would name the place where that was made.
printf '%s\n' '#!/opt/python/bin/python3 -P' 'import sys' \
  'sys.path[:0] = ["/opt/source", "/opt/packages"]' \
  'from reconcile.cli.main import entry' 'entry()' >/opt/reconcile/bin/reconcile
chmod 755 /opt/reconcile/bin/reconcile

if [ "$init" = cron ]; then
  # A crontab of our own; and a sendmail that keeps each mail, among the programs that there are.
  mount -t tmpfs tmpfs /var/spool/cron
  mkdir -m 1730 /var/spool/cron/crontabs
  rm -rf /etc/crontab /etc/cron.*
  mkdir /etc/cron.d /run/sbin
  mount --bind "$(realpath /usr/sbin)" /run/sbin
  mount -t tmpfs -o mode=755 tmpfs /usr/sbin
  cp -as /run/sbin/. /usr/sbin
  rm -f /usr/sbin/sendmail
  mkdir -m 1777 /srv/app/mail
  printf '%s\n' '#!/bin/sh' \
    'cat >"/srv/app/mail/.$$" && mv "/srv/app/mail/.$$" "/srv/app/mail/$(date +%s%N)-$$"' \
    >/usr/sbin/sendmail
  chmod 755 /usr/sbin/sendmail
  mount -t tmpfs tmpfs /dev/shm # faketime(1) names its semaphore by the process, which is the first
  # Its clock runs faster; what it calls has an environment of its own, and so the real time.
  exec faketime -f "+0 x$9" /usr/sbin/cron -f
fi

for name in tmpfiles-setup.service tmpfiles-setup-dev.service tmpfiles-clean.service \
  tmpfiles-clean.timer journald-dev-log.socket journald-audit.socket udevd.service logind.service
do
  ln -s /dev/null "/run/systemd/system/systemd-$name"
done
printf '[Unit]\nDefaultDependencies=no\nWants=systemd-journald.socket\n' \
  >/etc/systemd/system/here.target
export container=other
exec /usr/lib/systemd/systemd --system --unit=here.target --log-target=journal --show-status=no
