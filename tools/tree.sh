#!/usr/bin/env bash
# tree.sh [DIR]: a private, relocated copy of the server that PG_CONFIG names, with our extension installed in it.
#
# DIR (default build/pgNN) gets the same layout below it as the server has below /, for example
# DIR/usr/lib/postgresql/15/{bin,lib} and DIR/usr/share/postgresql/15: a server finds its files relative to the real
# path of its binary. So the programs are copied and everything else is a link, and nothing outside DIR is written.
# Whatever was built by "make" goes in by "make install DESTDIR=DIR"; so does test/modules/queen_test, if it is there, and the
# install scripts of older versions.
# Prints the directory of the programs; its pg_config knows the rest.
. "$(dirname "$0")/env.sh"

dir=${1:-$TOP/build/pg$PG_MAJOR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd -P)

# link_all FROM [BUT]: DIR/FROM becomes a directory of links to what is in FROM
link_all() {
	mkdir -p "$dir$1"
	find "$dir$1" -maxdepth 1 -lname "$1/*" -delete
	find "$1" -mindepth 1 -maxdepth 1 ! -name "${2:-.}" -exec ln -sf -t "$dir$1" {} +
}

bin=$(pg --bindir) lib=$(pg --pkglibdir) share=$(pg --sharedir) include=$(pg --pkgincludedir)

mkdir -p "$dir$bin"
cp -Lpu "$bin"/* "$dir$bin/"
link_all "$lib"
link_all "$share" extension
link_all "$share/extension"
[ -e "$dir$include" ] || { mkdir -p "$dir${include%/*}" && ln -s "$include" "$dir$include"; }

# A copy of ours that somebody installed into the system must not be reached, nor written through a link.
find "$dir$lib" "$dir$share/extension" -maxdepth 1 -type l \( -name 'queen.*' -o -name 'queen--*' -o -name 'queen_test*' \) -delete

install_into() { mk -s "$@" install "DESTDIR=$dir" >/dev/null; }
install_into -C "$TOP"
for f in "$TOP"/sql/released/queen--*.sql; do # what updates are tested from
	[ ! -e "$f" ] || cp "$f" "$dir$share/extension/"
done
module=$TOP/test/modules/queen_test
if [ -f "$module/Makefile" ]; then
	mk -s -C "$module" clean >/dev/null # small, and nothing there knows which compiler and server it was built for
	install_into -C "$module"
fi

[ "$("$dir$bin/pg_config" --pkglibdir)" = "$dir$lib" ] || die "the copy in $dir does not find its own files"
say "$dir$bin"
