# The first process of new namespaces: makes a machine of them and becomes its systemd.
# sh systemd_boot.sh SRV PYTHON PACKAGES CHECKOUT USER UID SYSTEMD
set -eu
srv=$1 python=$2 packages=$3 checkout=$4 user=$5 uid=$6 systemd=$7

mount --make-rprivate /
mount -t proc proc /proc
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup

# All that is bound in below is kept in sight before its folder is covered.
mkdir -p /run/was/srv /run/was/python /run/was/packages /run/was/checkout /run/etc
mount --bind "$srv" /run/was/srv
mount --bind "$python" /run/was/python
mount --bind "$packages" /run/was/packages
mount --bind "$checkout" /run/was/checkout

mount -t tmpfs tmpfs /run/etc
cp -a /etc/. /run/etc
mount --move /run/etc /etc
rm -rf /etc/systemd/system /etc/reconcile
mkdir -p /etc/systemd/system /etc/reconcile /run/systemd/system /run/lock
printf '%s:x:%s:%s::/nonexistent:/usr/sbin/nologin\n' "$user" "$uid" "$uid" >>/etc/passwd
printf '%s:x:%s:\n' "$user" "$uid" >>/etc/group
mount -t tmpfs -o mode=755 tmpfs /var/lib
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
umount /run/was/srv /run/was/python /run/was/packages /run/was/checkout

# A console script, which in an environment would name the place where that was made.
printf '%s\n' '#!/opt/python/bin/python3 -P' 'import sys' \
  'sys.path[:0] = ["/opt/source", "/opt/packages"]' \
  'from reconcile.cli.main import entry' 'entry()' >/opt/reconcile/bin/reconcile
chmod 755 /opt/reconcile/bin/reconcile

for name in tmpfiles-setup.service tmpfiles-setup-dev.service tmpfiles-clean.service \
  tmpfiles-clean.timer journald-dev-log.socket journald-audit.socket udevd.service logind.service
do
  ln -s /dev/null "/run/systemd/system/systemd-$name"
done
printf '[Unit]\nDefaultDependencies=no\nWants=systemd-journald.socket\n' \
  >/etc/systemd/system/here.target
export container=other
exec "$systemd" --system --unit=here.target --log-target=journal --show-status=no
