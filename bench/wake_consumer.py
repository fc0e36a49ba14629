#!/usr/bin/env python3
"""wake_consumer.py SECONDS: wait, pop, wait again; prints for each message that a wait returned for how many milliseconds after the
beginning of its push that was. Run by wake.sh."""
import sys
import time

import psycopg2

connection = psycopg2.connect('')
connection.autocommit = True
cursor = connection.cursor()
end = time.time() + float(sys.argv[1])
while time.time() < end:
    began = time.time()
    cursor.execute("CALL queen.wait('wake', 'g', '1 s')")
    returned = time.time()
    if not cursor.fetchone()[0]:
        continue
    cursor.execute("SELECT message::text::float8 FROM queen.pop('wake', 'g', 10000, auto_ack => true)")
    for (pushed,) in cursor.fetchall():
        # pushed while the wait ran: what its pop met beside is of nobody's waiting
        if began <= pushed <= returned:
            print(f'{(returned - pushed) * 1000:.3f}')
